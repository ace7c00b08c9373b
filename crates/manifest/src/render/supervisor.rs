//! Runs the command of a training under the supervisor, which restarts all ranks together. The
//! supervisor is a Python program, `supervisor.py`, because images of distributed trainings contain
//! Python. torch's elastic rendezvous does not suffice: it renumbers ranks and loses its state with
//! rank 0.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{
    PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapProjection, KeyToPath, ProjectedVolumeSource, Secret, SecretProjection,
    Volume, VolumeProjection,
};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
    NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::command::Words;
use super::fabric::{ports, uses_host_network};
use super::labels::metadata;
use super::{Object, OtherPolicies, Refusal, Target};
use crate::spec::{Command, JobDocument, Restart};
use gpuctl_core::model::contract::labels::{
    JOB, SUPERVISOR_FILE, SUPERVISOR_VOLUME, TOKEN_FILE, TOKEN_TYPE,
};
use gpuctl_core::model::values::fingerprint::sha256;
use gpuctl_core::model::{JobKind, OWN_CONTAINER};

const PROGRAM: &str = include_str!("supervisor.py");
/// Directory of the supervisor in containers.
pub(super) const FOLDER: &str = "/etc/gpuctl";
/// Pod annotation with the rank, which the Job controller sets. Kubernetes would not expand
/// `$(JOB_COMPLETION_INDEX)`, because the controller appends that variable after all others.
pub(super) const RANK: &str = "metadata.annotations['batch.kubernetes.io/job-completion-index']";
/// Exit code of a rank after the training has failed.
const FAILED: i32 = 113;
/// Exit code of a rank that releases its GPUs because other ranks have not been placed.
const NOT_PLACED: i32 = 114;

/// Starts the supervisor with the first Python in the image, or only the command if there is no
/// Python. The first argument is the program's hash, which protects the program: users who can
/// replace the ConfigMap cannot change a Job's template.
const START: &str = "program=$1; shift
for python in python3 python; do
if \"$python\" -ISc 'import sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null; then exec \"$python\" -ISc '
import hashlib, sys
path, expected = \"/etc/gpuctl/supervisor.py\", sys.argv.pop(1)
with open(path, \"rb\") as file: program = file.read()
if hashlib.sha256(program).hexdigest() != expected: sys.exit(\"gpuctl: the supervisor was changed after the job was created; `gpuctl apply -f FILE` restores it\")
sys.argv[0] = path
exec(compile(program, path, \"exec\"))' \"$program\" \"$@\"; fi
done
echo 'gpuctl: this image has no Python: each rank is retried by itself, and no timeout of the job is enforced' >&2
while [ \"$1\" != -- ]; do shift; done
shift
exec \"$@\"";

/// Returns true if the ranks of `job` start, stop and restart together.
pub(super) fn supervises(job: &JobDocument) -> bool {
    let in_image = job.command == Command::Image && !matches!(job.args, Command::Shell(_));
    is_requested(job) && !in_image
}

fn is_requested(job: &JobDocument) -> bool {
    let training = &job.training;
    if job.kind != JobKind::Training {
        return false;
    }
    match training.restart {
        Some(Restart::All) => true,
        None | Some(Restart::Never) => {
            job.resources.node_count > 1 || training.hang_timeout.is_some()
        }
        Some(Restart::Rank) => false,
    }
}

/// Wraps the command in the supervisor. If the command is the image's own, refuses or warns.
pub(super) fn wrap(job: &JobDocument, mut words: Words, target: &Target) -> Result<Words, Refusal> {
    if !is_requested(job) {
        return Ok(words);
    }
    let training = &job.training;
    let Some(command) = words.command.take() else {
        if training.restart.is_some() || training.hang_timeout.is_some() {
            let field = if training.hang_timeout.is_some() {
                "job.hang_timeout"
            } else {
                "job.restart: all"
            };
            let message = format!("`{field}` needs `environment.command`");
            return Err(Refusal::new(
                "UnknownCommand",
                message,
                "set it to the command that the image runs",
            ));
        }
        let message = "the job runs the image's default command, so each rank is retried separately; set `environment.command` to restart all ranks together";
        words.warnings.push(message.to_owned());
        return Ok(words);
    };
    let grace = job.grace_period.map_or(60, |period| period.as_secs());
    let mut argv: Vec<String> = ["sh", "-c", START, "supervisor", &program_hash()]
        .map(ToOwned::to_owned)
        .into();
    let mut flag = |name: &str, value: String| argv.extend([format!("--{name}"), value]);
    flag("run", "$(GPUCTL_RUN)".to_owned());
    flag("token", format!("{FOLDER}/{TOKEN_FILE}"));
    flag("pod", "$(GPUCTL_POD)".to_owned());
    flag("rank", "$(GPUCTL_RANK)".to_owned());
    flag("ranks", job.resources.node_count.to_string());
    flag("host", "$(GPUCTL_HOST)".to_owned());
    flag("port", ports(job, target).supervisor.to_string());
    flag("retries", training.retries.to_string());
    flag("failures", "$(GPUCTL_FAILURES)".to_owned());
    // End the processes shortly before the kubelet sends SIGKILL.
    flag("grace", grace.saturating_sub(2).max(1).to_string());
    let limits = [
        ("gang-timeout", training.gang_timeout),
        ("hang-timeout", training.hang_timeout),
        ("max-runtime", training.max_runtime),
    ];
    for (name, limit) in limits {
        if let Some(limit) = limit {
            flag(name, limit.as_secs_f64().to_string());
        }
    }
    argv.push("--".to_owned());
    argv.extend(command);
    words.command = Some(argv);
    Ok(words)
}

/// Variables that the supervisor reads, with the pod fields that provide their values.
pub(super) fn pod_facts() -> [(&'static str, &'static str); 4] {
    [
        (
            "GPUCTL_RUN",
            "metadata.labels['batch.kubernetes.io/controller-uid']",
        ),
        ("GPUCTL_POD", "metadata.uid"),
        ("GPUCTL_RANK", RANK),
        (
            "GPUCTL_FAILURES",
            "metadata.annotations['batch.kubernetes.io/job-index-failure-count']",
        ),
    ]
}

/// Returns the common name of the job's Secret, ConfigMap and NetworkPolicy.
fn object_name(job: &JobDocument) -> String {
    format!("{}-supervisor", job.id())
}

pub(super) fn program_hash() -> String {
    sha256(PROGRAM)
}

/// Builds the volume with the program and the token. The token is a file, because many tools
/// display variables and arguments. Every user can read the file, because the container can run as
/// any user.
pub(super) fn volume(job: &JobDocument) -> Volume {
    let item = |key: &str, mode| {
        Some(vec![KeyToPath {
            key: key.to_owned(),
            path: key.to_owned(),
            mode: Some(mode),
        }])
    };
    let program = ConfigMapProjection {
        name: object_name(job),
        items: item(SUPERVISOR_FILE, 0o444),
        ..ConfigMapProjection::default()
    };
    let token = SecretProjection {
        name: object_name(job),
        items: item(TOKEN_FILE, 0o444),
        ..SecretProjection::default()
    };
    let sources = vec![
        VolumeProjection {
            config_map: Some(program),
            ..VolumeProjection::default()
        },
        VolumeProjection {
            secret: Some(token),
            ..VolumeProjection::default()
        },
    ];
    Volume {
        name: SUPERVISOR_VOLUME.to_owned(),
        projected: Some(ProjectedVolumeSource {
            sources: Some(sources),
            ..ProjectedVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// Builds the Secret without its token, which is random and exists only in the cluster.
pub(super) fn secret(
    job: &JobDocument,
    target: &Target,
    labels: &BTreeMap<String, String>,
) -> Object {
    let secret = Secret {
        metadata: metadata(job, target, &object_name(job), labels),
        type_: Some(TOKEN_TYPE.to_owned()),
        immutable: Some(true),
        ..Secret::default()
    };
    Object::new(&secret, "secrets")
}

/// Returns the name of the job's NetworkPolicy. A job with one pod needs none, and policies do not
/// apply to the host network.
pub fn policy_name(job: &JobDocument) -> Option<String> {
    (supervises(job) && job.resources.node_count > 1 && !uses_host_network(job))
        .then(|| object_name(job))
}

/// Builds the policy that closes the supervisor's port to pods of other jobs. Policies can only
/// allow traffic, so it allows all other ports and protocols. If other policies isolate the
/// namespace, these rules would break the isolation, so the policy then allows only traffic between
/// the job's pods.
pub(super) fn network_policy(
    job: &JobDocument,
    target: &Target,
    labels: &BTreeMap<String, String>,
) -> Option<Object> {
    let name = policy_name(job).filter(|_| target.other_policies != OtherPolicies::Hidden)?;
    let port = i32::from(ports(job, target).supervisor);
    let selector = || LabelSelector {
        match_labels: Some([(JOB.to_owned(), job.id().to_owned())].into()),
        ..LabelSelector::default()
    };
    let tcp = |from, to| NetworkPolicyPort {
        protocol: Some("TCP".to_owned()),
        port: Some(IntOrString::Int(from)),
        end_port: Some(to),
    };
    let all_of = |protocol: &str| NetworkPolicyPort {
        protocol: Some(protocol.to_owned()),
        ..NetworkPolicyPort::default()
    };
    let peers = NetworkPolicyIngressRule {
        from: Some(vec![NetworkPolicyPeer {
            pod_selector: Some(selector()),
            ..NetworkPolicyPeer::default()
        }]),
        ports: None,
    };
    let other_ports = NetworkPolicyIngressRule {
        from: None,
        ports: Some(vec![
            tcp(1, port - 1),
            tcp(port + 1, 65_535),
            all_of("UDP"),
            all_of("SCTP"),
        ]),
    };
    let ingress = match target.other_policies {
        OtherPolicies::Present => vec![peers],
        OtherPolicies::Absent | OtherPolicies::Hidden => vec![peers, other_ports],
    };
    let policy = NetworkPolicy {
        metadata: metadata(job, target, &name, labels),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(selector()),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(ingress),
            egress: None,
        }),
    };
    Some(Object::new(&policy, "networkpolicies"))
}

/// Builds the ConfigMap that contains the supervisor.
pub(super) fn config_map(
    job: &JobDocument,
    target: &Target,
    labels: &BTreeMap<String, String>,
) -> Object {
    let map = ConfigMap {
        metadata: metadata(job, target, &object_name(job), labels),
        data: Some([(SUPERVISOR_FILE.to_owned(), PROGRAM.to_owned())].into()),
        immutable: Some(true),
        ..ConfigMap::default()
    };
    Object::new(&map, "configmaps")
}

/// Builds the policy for failed pods. An evicted pod does not count as a failure. With the
/// supervisor, an eviction does not make other pods fail. Without it, the other pods fail too, and
/// count.
pub(super) fn failure_policy(supervised: bool) -> PodFailurePolicy {
    let disrupted = PodFailurePolicyOnPodConditionsPattern {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
    };
    let ignored = PodFailurePolicyRule {
        action: "Ignore".to_owned(),
        on_pod_conditions: Some(vec![disrupted]),
        on_exit_codes: None,
    };
    let by_code = |action: &str, code| PodFailurePolicyRule {
        action: action.to_owned(),
        on_pod_conditions: None,
        on_exit_codes: Some(PodFailurePolicyOnExitCodesRequirement {
            container_name: Some(OWN_CONTAINER.to_owned()),
            operator: "In".to_owned(),
            values: vec![code],
        }),
    };
    // The Job controller applies the first matching rule, so an eviction is ignored regardless of
    // the exit code.
    let mut rules = vec![ignored];
    if supervised {
        rules.extend([by_code("FailJob", FAILED), by_code("Ignore", NOT_PLACED)]);
    }
    PodFailurePolicy { rules }
}

/// Explains in a dry run which part enforces the time limits, if any.
pub(super) fn limit_notes(
    job: &JobDocument,
    supervised: bool,
    placed_together: bool,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let training = &job.training;
    let limited = |limit: Option<Duration>| limit.is_some();
    if limited(training.max_runtime) {
        warnings.push(match supervised {
            true => {
                "max_runtime starts once all ranks have joined, and covers all attempts together"
                    .to_owned()
            }
            false => {
                "max_runtime starts once a pod is on its node, and applies to each attempt separately"
                    .to_owned()
            }
        });
    }
    if limited(training.gang_timeout) {
        warnings.push(
            match (placed_together, supervised) {
                (true, _) => "gang_timeout is not needed: no pod starts before all of them fit",
                (false, true) => "gang_timeout stops ranks that have waited this long, and frees their GPUs until the next attempt",
                (false, false) => "gang_timeout applies only while `gpuctl create --wait` runs: nothing in the cluster enforces it",
            }
            .to_owned(),
        );
    }
    warnings
}
