//! With `--read-only`, `GPUCTL_READ_ONLY` or the setting in the config file, no command changes
//! anything, even for a user with all permissions. The API server's audit log proves it.

use std::collections::BTreeSet;

use gpuctl_sandbox::Persona;
use serde_json::Value;

use crate::support::{Run, Scene, cluster, file, run};

/// Returns the requests of this user from the API server's audit log, as (verb, URI).
fn requests_of(persona: Persona) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(cluster().folder().join("audit.log")).unwrap_or_default();
    let entries = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    entries
        .filter(|entry| entry["user"]["username"] == persona.user())
        .map(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            (text("verb"), text("requestURI"))
        })
        .collect()
}

fn is_change((verb, uri): &(String, String)) -> bool {
    let reads = ["get", "list", "watch"].contains(&verb.as_str())
        && !uri.contains("/exec?")
        && !uri.contains("/attach?");
    !(reads
        || uri.contains("dryRun=All")
        || uri.starts_with("/apis/authorization.k8s.io/")
        || uri.contains("selfsubjectreviews"))
}

#[test]
fn read_only_mode_prevents_every_change() {
    let scene = Scene::with_nodes("only-reads", 2);
    scene.admin.run(&[
        "create",
        "clusterrolebinding",
        "only-reads-heidi",
        "--clusterrole=cluster-admin",
        "--user=heidi",
    ]);
    scene.create("a", "");
    scene.create("paused", "");
    scene.serve("web", "vllm", 1, "");
    scene.gpuctl(&["pause", "paused"]).ok();
    scene.until("a", "running", None);
    let heidi = scene.seen_by(Persona::Heidi);
    let yaml = |name: &str, text: &str| {
        file(&format!("only-reads-{name}.yaml"), text)
            .to_str()
            .unwrap()
            .to_owned()
    };
    let training = yaml("training", &scene.training("made", ""));
    let applied = yaml(
        "applied",
        &scene.training("a", "job: {name: NAME, description: changed}"),
    );
    let pool = yaml(
        "pool",
        "kind: pool\nversion: v0.1\npool: {name: only-reads-made}\n",
    );
    let quota = yaml(
        "quota",
        "kind: quota\nversion: v0.1\nquota: {name: only-reads}\nnamespace: {only-reads: {gpu: 10}}\n",
    );
    let defaults = yaml(
        "defaults",
        "kind: defaults\nversion: v0.1\nkinds: {training: {max_runtime: 1h}}\n",
    );
    let secret = format!("KEY={}", yaml("secret", "x"));
    let writes: &[&[&str]] = &[
        &["create", "-f", &training],
        &["create", "-f", &pool],
        &["create", "-f", &quota],
        &["create", "-f", &defaults],
        &["create", "secret", "s", "--from-file", &secret],
        &["apply", "-f", &training],
        &["apply", "-f", &pool],
        &["run", "--name", "ran", "--image", "busybox", "--", "true"],
        &["scale", "web", "2"],
        &["pause", "a"],
        &["resume", "paused"],
        &["restart", "a"],
        &["delete", "job", "a"],
        &["delete", "job", "a", "--force"],
        &["add", "nodes", "--pool", "only-reads", "only-reads-0"],
        &[
            "remove",
            "nodes",
            "--pool",
            "only-reads",
            "only-reads-0",
            "--force",
        ],
        &["label", "node", "only-reads-0", "team=x"],
        &["exec", "a", "--", "true"],
        &["attach", "a"],
        &["cp", "a:/tmp/x", "/tmp/gpuctl-read-only"],
    ];
    let reads: &[&[&str]] = &[
        &["create", "-f", &training, "--dry-run=server"],
        &["apply", "-f", &applied, "--dry-run=server"],
        &["diff", "-f", &training],
        &["fit", "-f", &training],
        &["get", "jobs"],
        &["get", "nodes"],
        &["get", "pools"],
        &["get", "quotas"],
        &["get", "claims"],
        &["get", "workloads"],
        &["get", "overview"],
        &["describe", "job", "a"],
        &["describe", "node", "only-reads-0"],
        &["tree", "a"],
        &["why", "a"],
        &["free"],
        &["events", "a"],
        &["wait", "a", "--for", "running"],
        &["drain", "--plan", "only-reads-0"],
        &["auth", "check"],
        &["doctor"],
    ];
    let is_refused_as_read_only = |run: &Run| {
        run.err
            .contains("this would change the cluster, but gpuctl is in read-only mode")
    };
    for (place, arguments) in writes.iter().enumerate() {
        let refused = match place % 2 {
            0 => heidi.gpuctl(&[&["--read-only"], *arguments].concat()),
            _ => {
                let mut command = heidi.command(arguments);
                command.env("GPUCTL_READ_ONLY", "1");
                run(command, "")
            }
        };
        assert!(
            is_refused_as_read_only(&refused) && refused.code == 5,
            "{arguments:?} exits {}: {}{}",
            refused.code,
            refused.out,
            refused.err
        );
        let hint = if place % 2 == 0 {
            "hint: remove `--read-only`"
        } else {
            "hint: unset GPUCTL_READ_ONLY"
        };
        assert!(refused.err.contains(hint), "{}", refused.err);
        // `delete` and others have no `--dry-run`.
        assert!(!refused.err.contains("--dry-run"), "{}", refused.err);
    }
    for arguments in reads {
        let run = heidi.gpuctl(&[&["--read-only"], *arguments].concat());
        assert!(
            !is_refused_as_read_only(&run) && run.code != 5,
            "{arguments:?} exits {}: {}",
            run.code,
            run.err
        );
    }
    // Checks that the test covers every command that talks to a cluster.
    let tried: BTreeSet<&str> = writes
        .iter()
        .chain(reads)
        .map(|arguments| arguments[0])
        .collect();
    let local_commands = [
        "init",
        "validate",
        "explain",
        "schema",
        "convert",
        "config",
        "options",
        "mcp",
        "skill",
        "version",
        "completion",
        "man",
        "help",
    ];
    // These commands query metrics or open a browser, and send only GET requests.
    let metrics = [
        "top", "score", "eff", "stats", "report", "who", "snapshot", "logs", "open",
    ];
    let help = heidi.gpuctl(&["--help"]).ok().out;
    let words = help
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        // A description that continues on the next line is indented further.
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next());
    for verb in words
        .filter(|word| word.chars().all(|letter| letter.is_ascii_lowercase()) && *word != "gpuctl")
    {
        assert!(
            tried.contains(verb) || local_commands.contains(&verb) || metrics.contains(&verb),
            "{verb} was not tested"
        );
    }
    let requests = requests_of(Persona::Heidi);
    assert!(
        requests.len() > 100,
        "the audit log contains {} requests",
        requests.len()
    );
    let changing: Vec<_> = requests
        .iter()
        .filter(|request| is_change(request))
        .collect();
    assert!(changing.is_empty(), "{changing:#?}");
    let dry = requests
        .iter()
        .filter(|(_, uri)| uri.contains("dryRun=All"))
        .count();
    assert!(dry > 4, "dry runs are allowed: {dry}");

    // The config file makes one context read-only. In another context the change is allowed, and
    // the log shows it.
    let config = file(
        "only-reads-config.yaml",
        "contexts:\n  heidi: {safety: {read_only: true}}\n",
    );
    let with_config = |config: &std::path::Path| {
        heidi.gpuctl(&[
            "--config",
            config.to_str().unwrap(),
            "label",
            "node",
            "only-reads-0",
            "team=x",
        ])
    };
    let refused = with_config(&config).exits(5);
    assert!(
        refused.err.contains("`safety.read_only`") && refused.err.contains("gpuctl config set"),
        "{}",
        refused.err
    );
    with_config(&file("only-reads-broken.yaml", "contexts: [\n"))
        .exits(5)
        .says("cannot determine whether changes are allowed");
    let other = file(
        "only-reads-other.yaml",
        "safety: {read_only: false}\ncontexts:\n  prod: {safety: {read_only: true}}\n",
    );
    with_config(&other).ok();
    assert!(
        requests_of(Persona::Heidi).iter().any(is_change),
        "the audit log shows allowed changes"
    );
    let mut invalid = heidi.command(&["pause", "a"]);
    invalid.env("GPUCTL_READ_ONLY", "perhaps");
    run(invalid, "")
        .exits(5)
        .says("GPUCTL_READ_ONLY is `perhaps`, which is not true or false");
}
