//! Lists the commands that run with the roles printed for them. There is at least one for each
//! verb, and there are variants with different needs.

use super::scene::{PORT, Scene, notebook, service, training};

/// A command, and the arguments of `auth check` that print its role.
pub struct Case {
    pub task: &'static str,
    pub args: Vec<String>,
    pub input: String,
    /// Exit codes that do not indicate a missing permission.
    pub codes: &'static [i32],
    /// Whether the command only reads. If so, it also runs with the full role, and then it must not
    /// omit anything.
    pub reads: bool,
    /// Whether the command does not end by itself, so that the test stops it after some seconds.
    pub is_endless: bool,
    /// Whether the case needs objects that the previous case created.
    pub in_order: bool,
    /// Whether every user can run it, because `gpuctl-reader` is bound to all users.
    pub is_open: bool,
}

fn case(task: &'static str, line: &str) -> Case {
    let args = line.split_whitespace().map(ToOwned::to_owned).collect();
    Case {
        task,
        args,
        input: String::new(),
        codes: &[0],
        reads: false,
        is_endless: false,
        in_order: false,
        is_open: false,
    }
}

/// Returns the case of a command that only reads.
fn read(task: &'static str, line: &str) -> Case {
    Case {
        reads: true,
        ..case(task, line)
    }
}

impl Case {
    fn with(self, input: impl Into<String>) -> Self {
        Self {
            input: input.into(),
            ..self
        }
    }

    fn codes(self, codes: &'static [i32]) -> Self {
        Self { codes, ..self }
    }

    fn endless(self) -> Self {
        Self {
            is_endless: true,
            codes: &[0, -9],
            ..self
        }
    }

    fn in_order(self) -> Self {
        Self {
            in_order: true,
            ..self
        }
    }
}

const TWO_NODES: &str = "resources: {pool: roles, gpu: 1, node_count: 2}\n";

fn writing(scene: &Scene) -> Vec<Case> {
    scene.file("data.txt", "data");
    let with_files = scene.file(
        "with-files.yaml",
        &training("with-files", "files: {data.txt: data.txt}"),
    );
    let secret = scene.file("secret", "not-a-secret");
    let replaced = training("replaced", "resources: {pool: roles, gpu: 2}\n");
    let scaled = "autoscaling: {minReplicas: 1, maxReplicas: 2, targetGPUUtilization: 70}\n";
    let exposed = "service: {replicas: 1, port: 8000, host: llm.example.com}\n";
    let create = |task, input: String| case(task, "create -f - --allow-pending").with(input);
    let apply = |task, input: String| case(task, "apply -f - --allow-pending").with(input);
    let claim = "storage: {workdirs: [{path: /data, size: 1Gi}]}\n";
    vec![
        create("create jobs", training("made", "")),
        create("create jobs", training("made-two", TWO_NODES)),
        create("create jobs", training("made-claim", claim)),
        case(
            "create jobs",
            &format!("create -f {with_files} --allow-pending"),
        ),
        case("create jobs", "create -f - --wait --timeout 60s").with(training("made-waiting", "")),
        case("create jobs", "create -f - --dry-run=server").with(training("made-dry", TWO_NODES)),
        case(
            "create jobs",
            "run --name ran --image busybox --pool roles --gpus 1 --allow-pending -- true",
        ),
        case(
            "create jobs",
            "create --from again --name copied-again --allow-pending",
        ),
        case(
            "create jobs",
            "create --from stored --name copied-files --allow-pending",
        ),
        case(
            "create services",
            "create --from web --name copied-web --allow-pending",
        ),
        create("create services", service("made-web", PORT)),
        create(
            "create services",
            service("made-scaled", &format!("{PORT}\n{scaled}")),
        ),
        create("create services", service("made-exposed", exposed)),
        create("create notebooks", notebook("made-book")),
        case(
            "create secrets",
            &format!("create secret s --from-file KEY={secret}"),
        ),
        apply("apply jobs", training("applied", "")),
        apply("apply jobs", training("applied-two", TWO_NODES)),
        apply("apply jobs", training("changed", "")),
        case("apply jobs", "apply -f - --replace --allow-pending").with(replaced),
        apply("apply services", service("applied-web", PORT)),
        apply(
            "apply services",
            service("tuned", "service: {replicas: 2, port: 8000}\n"),
        ),
        apply("apply notebooks", notebook("applied-book")),
        case("diff", "diff -f -")
            .with(training("differs", TWO_NODES))
            .codes(&[11]),
        case("diff", "diff -f -")
            .with(training("again", ""))
            .codes(&[0, 11]),
        case("diff", "diff -f -")
            .with(service("web", PORT))
            .codes(&[0, 11]),
        case("pause jobs", "pause job paused"),
        case("resume jobs", "resume job resumed"),
        case("restart jobs", "restart job restarted"),
        case("scale", "scale scaled --replicas 2"),
        case("delete jobs", "delete job gone"),
        case("delete jobs", "delete job purged --purge"),
        case("delete jobs", "delete job awaited --no-wait"),
        case("delete jobs", "delete job ended"),
        case("delete jobs", "delete job forced --force"),
        case("delete jobs", "delete job forced-web --force"),
        case("delete jobs", "delete job closed"),
        case("delete jobs", "delete job never-was").codes(&[4]),
        case("exec", "exec a -- true"),
        case("exec", "exec web -- true"),
        case(
            "cp",
            &format!("cp a:hello.txt {}/copied.txt", scene.inside().display()),
        ),
        case(
            "cp",
            &format!(
                "cp copied:{0}/hello.txt {0}/copied-after-pause.txt",
                scene.inside().display()
            ),
        ),
        case(
            "cp",
            &format!(
                "cp completed:{0}/hello.txt {0}/copied-after-end.txt",
                scene.inside().display()
            ),
        ),
        // The kwok node has no log to attach to, and says so only after it has authorized the
        // request.
        Case {
            codes: &[0, 1, -9],
            ..case("attach", "attach a").endless()
        },
        case("open", "open web -o json").endless(),
    ]
}

/// Returns the cases that change pools, quotas and defaults, which the whole cluster shares.
fn sharing() -> Vec<Case> {
    let pool = |name: &str, node: &str| {
        format!("kind: pool\nversion: v0.1\npool: {{name: {name}}}\nnodes: [{node}]\n")
    };
    let quota = |name: &str, gpus: u32| {
        format!(
            "kind: quota\nversion: v0.1\nquota: {{name: {name}}}\nnamespace: {{roles: {{gpu: {gpus}}}}}\n"
        )
    };
    let defaults = |value: &str| {
        format!("kind: defaults\nversion: v0.1\npools:\n  joined:\n    labels: {{site: {value}}}\n")
    };
    let all = vec![
        case("create pools", "create -f - --force").with(pool("made-pool", "spare-0")),
        case("apply pools", "apply -f - --force").with(pool("applied-pool", "spare-1")),
        case("add nodes", "add node spare-2 --pool joined --force"),
        case("remove nodes", "remove node spare-7 --pool left"),
        case("delete pools", "delete pool doomed"),
        case("label nodes", "label node spare-3 team=x"),
        case("delete quotas", "delete quota standing"),
        case("create quotas", "create -f -").with(quota("made", 90)),
        case("apply quotas", "apply -f -").with(quota("made", 91)),
        case("create defaults", "create -f -").with(defaults("a")),
        Case {
            is_open: true,
            ..read("get defaults", "get defaults")
        },
        Case {
            is_open: true,
            ..read("describe defaults", "describe defaults")
        },
        case("apply defaults", "apply -f -").with(defaults("b")),
        case("delete defaults", "delete defaults"),
    ];
    all.into_iter().map(Case::in_order).collect()
}

fn reading() -> Vec<Case> {
    vec![
        read("get jobs", "get jobs"),
        read("get jobs", "get jobs --mine"),
        Case {
            is_endless: true,
            codes: &[0, -9],
            ..case("get jobs", "get jobs -w")
        },
        read("get nodes", "get nodes"),
        read("get pools", "get pools"),
        read("get quotas", "get quotas"),
        read("get claims", "get claims"),
        read("get queues", "get queues --preemptions"),
        read("get overview", "get overview"),
        read("get consumers", "get consumers").codes(&[0, 6]),
        read("get health", "get health").codes(&[0, 6]),
        read("get heatmap", "get heatmap").codes(&[0, 6]),
        read("get namespaces", "get namespaces"),
        read("get namespaces", "get dimension-keys --type label"),
        read("get namespaces", "get dimension-values app"),
        read("get workloads", "get workloads"),
        read("get workloads", "get workload-metadata"),
        read("get labels", "get label --all"),
        read("get labels", "get node-labels --all"),
        read("get labels", "get gpu-type --all"),
        read("get metrics job", "get metrics job a").codes(&[0, 4, 6]),
        read("get metrics workload", "get metrics workload a").codes(&[0, 4, 6]),
        read("get metrics workload", "get training-performance a").codes(&[0, 4, 6]),
        read("describe jobs", "describe job a"),
        read("describe jobs", "describe job web"),
        read("describe jobs", "describe job book"),
        read("describe jobs", "describe job never-was").codes(&[4]),
        read("describe nodes", "describe node roles-0"),
        read("describe pools", "describe pool roles"),
        read("describe quotas", "describe quota roles"),
        read("describe workloads", "describe workload web"),
        read("tree", "tree web"),
        read("why", "why a"),
        read("why", "why web"),
        read("free", "free"),
        read("fit", "fit -f -")
            .with(training("fits", TWO_NODES))
            .codes(&[0, 8]),
        read("top", "top"),
        read("top", "top jobs"),
        read("top", "top nodes"),
        read("score", "score").codes(&[0, 6]),
        read("stats", "stats cluster"),
        read("stats", "stats workloads"),
        read("eff", "eff a").codes(&[0, 4]),
        read("who gpu", "who gpu roles-0/0").codes(&[0, 4]),
        read("report", "report"),
        read("snapshot", "snapshot latest"),
        read("logs", "logs a"),
        read("logs", "logs web").codes(&[0, 1]),
        read("events", "events a"),
        read("events", "events web"),
        read("wait", "wait a --for deleted --timeout 1s").codes(&[7]),
        read("drain", "drain roles-1 --plan").codes(&[0, 1]),
    ]
}

pub fn cases(scene: &Scene) -> Vec<Case> {
    let mut cases: Vec<Case> = [writing(scene), reading(), sharing()]
        .into_iter()
        .flatten()
        .collect();
    // All cases of a task have the same full role, so each task is listed once.
    let mut seen = std::collections::BTreeSet::new();
    for case in cases.iter_mut().filter(|case| case.reads) {
        case.reads = seen.insert(case.task);
    }
    cases
}
