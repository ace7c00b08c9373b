//! Explains why the containers of a scheduled pod do not start or are not ready: images, volumes,
//! Secrets, the runtime, probes. The messages are those of kubelet 1.36 and containerd 2.2.

use super::answer::Cause;
use super::facts::Facts;
use super::{crashes, evictions, host_faults, images, sidecars};
use gpuctl_core::model::facts::state::pod_name;
use gpuctl_core::model::{Container, Event, Pod, PodPhase, is_starting};

/// Event reasons for a kubelet that cannot prepare a pod.
const CANNOT_PREPARE: [&str; 4] = [
    "FailedMount",
    "FailedAttachVolume",
    "FailedMapVolume",
    "FailedCreatePodSandBox",
];
/// Seconds that the creation of a container usually takes at most.
const CREATION: i64 = 30;
/// Event reasons that show that the preparation succeeded.
const PROGRESS: [&str; 5] = [
    "SuccessfulAttachVolume",
    "Pulling",
    "Pulled",
    "Created",
    "Started",
];

/// Explains why a scheduled pod does not work. Returns no causes for a working pod.
pub(super) fn causes(facts: &Facts<'_>, pod: &Pod) -> Vec<Cause> {
    if let Some(cause) = host_faults::unready(facts, pod) {
        return vec![cause];
    }
    if let Some(cause) = evicted(facts, pod) {
        return vec![cause];
    }
    if let Some(sidecar) = pod.sidecar_left() {
        return sidecars::causes(facts, pod, sidecar);
    }
    let waiting: Vec<(&Container, &(String, String))> = pod
        .containers
        .iter()
        .filter_map(|container| Some((container, container.waiting.as_ref()?)))
        .collect();
    if let Some((container, (reason, message))) =
        waiting.iter().find(|(_, (reason, _))| !is_starting(reason))
    {
        return waiting_causes(facts, pod, container, reason, message);
    }
    let exited = crashes::exited(facts, pod);
    if !exited.is_empty() {
        return exited;
    }
    if let Some(node_cause) = host_faults::tainted(facts, pod).or_else(|| prepared(facts, pod)) {
        return vec![node_cause];
    }
    // Ignore a pull with a later event. `None` sorts before every time.
    let done = newest(facts, pod, &["Pulled", "Started"]).and_then(|event| event.at);
    let pulling = newest(facts, pod, &["Pulling"])
        .filter(|event| pod.phase == PodPhase::Pending && event.at > done);
    if let Some(event) = pulling {
        return vec![Cause::new("image-pulling", pulled(&event.message), "events").when(event.at)];
    }
    if waiting
        .iter()
        .any(|(_, (reason, _))| reason == "PodInitializing")
    {
        return vec![Cause::new(
            "init-running",
            format!("an init container of {} is running", pod_name(pod)),
            "pod",
        )];
    }
    if pod.phase == PodPhase::Pending {
        return creating(facts, pod).into_iter().collect();
    }
    unready_causes(facts, pod)
}

/// Returns a cause for a pod that was created less than `CREATION` seconds ago. A longer wait has
/// another, unknown reason.
fn creating(facts: &Facts<'_>, pod: &Pod) -> Option<Cause> {
    let age = facts.now.as_second() - pod.created_at?.as_second();
    let text = format!("the container of {} is being created", pod_name(pod));
    (age < CREATION).then(|| Cause::new("container-creating", text, "pod").when(pod.created_at))
}

/// Detects an eviction from the kubelet's event. A kubelet with a full disk cannot update the pod's
/// status, so the pod keeps its GPUs and seems to run.
pub(super) fn evicted(facts: &Facts<'_>, pod: &Pod) -> Option<Cause> {
    let evicts = |event: &Event| event.warning && event.reason == "Evicted";
    // Ignore an eviction before the last start of a container.
    let event = newest_where(facts, pod, |event| {
        evicts(event) || event.reason == "Started"
    })
    .filter(|event| evicts(event))?;
    Some(evictions::evicted(facts, pod, &event.message, "events").when(event.at))
}

fn waiting_causes(
    facts: &Facts<'_>,
    pod: &Pod,
    container: &Container,
    reason: &str,
    message: &str,
) -> Vec<Cause> {
    let pod_label = pod_name(pod);
    let cause = |word, text: String| Cause::new(word, text, "pod");
    match reason {
        reason if images::PULL_REASONS.contains(&reason) => image(facts, pod, reason, message),
        "CreateContainerConfigError" => vec![config(
            facts,
            &format!("{pod_label} cannot start: {message}"),
            message,
            "pod",
        )],
        "CrashLoopBackOff" => crashes::looping(facts, pod, container),
        "SchedulingGated" => vec![cause(
            "scheduling-gate",
            format!("{pod_label} is held back by a scheduling gate"),
        )],
        _ => vec![cause(
            "start-error",
            format!("{pod_label} cannot start: {reason}: {message}"),
        )],
    }
}

/// Explains why an image cannot be pulled, from the container's reason and message, and the event
/// of the last attempt.
fn image(facts: &Facts<'_>, pod: &Pod, reason: &str, message: &str) -> Vec<Cause> {
    let tried = newest_where(facts, pod, |event| {
        let starts = match event.reason.as_str() {
            "Failed" => "Failed to pull image ",
            "InspectFailed" => "Failed to inspect image ",
            _ => return false,
        };
        event.message.starts_with(starts)
    });
    let tried = tried.map(|event| (event.message.as_str(), event.at));
    images::causes(facts, pod, (reason, message), tried)
}

/// Builds the cause for an object that a container or volume mount needs.
fn config(facts: &Facts<'_>, text: &str, message: &str, seen_in: &'static str) -> Cause {
    let lower = message.to_ascii_lowercase();
    let missing = lower.contains("not found") || lower.contains("couldn't find key");
    let word = match () {
        () if missing && lower.contains("configmap") => "configmap-missing",
        // A user cannot create the missing secret of a CSI driver, which is not a Secret.
        () if missing && lower.contains("secret") && !lower.contains("csi") => "secret-missing",
        () if seen_in == "events" => "mount-failed",
        () => "start-error",
    };
    let cause = Cause::new(word, text, seen_in);
    let namespace = &facts.job.namespace;
    match word {
        "secret-missing" => cause.helps(
            "create it",
            Some(format!(
                "gpuctl create secret NAME -n {namespace} --from-env KEY"
            )),
        ),
        "configmap-missing" => cause.helps(
            "create it",
            Some(format!(
                "kubectl create configmap NAME -n {namespace} --from-file FILE"
            )),
        ),
        _ => cause,
    }
}

/// Returns the cause for the preparation step that failed, unless a later event shows progress.
fn prepared(facts: &Facts<'_>, pod: &Pod) -> Option<Cause> {
    if pod.phase != PodPhase::Pending {
        return None;
    }
    let failed = newest(facts, pod, &CANNOT_PREPARE);
    let failed = failed.map(|event| specific_mount_error(facts, pod, event).unwrap_or(event));
    let (reason, message, time) = match failed {
        Some(event) => {
            let later =
                newest(facts, pod, &PROGRESS).is_some_and(|progress| progress.at > event.at);
            if later {
                return None;
            }
            (event.reason.clone(), event.message.clone(), event.at)
        }
        None => {
            let (reason, message) = facts.job.start_failure.clone()?;
            (reason, message, None)
        }
    };
    let text = format!("{} cannot start: {message}", pod_name(pod));
    if reason == "FailedCreatePodSandBox" {
        return Some(Cause::new("start-error", text, "events").when(time));
    }
    Some(config(facts, &text, &message, "events").when(time))
}

/// Returns the error of a volume that the kubelet's summary names as not mounted. The kubelet writes
/// both (pkg/kubelet/volumemanager), and only the first states why.
fn specific_mount_error<'f>(facts: &Facts<'f>, pod: &Pod, summary: &Event) -> Option<&'f Event> {
    let volumes = summary
        .message
        .strip_prefix("Unable to attach or mount volumes: unmounted volumes=[")?;
    let (volumes, _) = volumes.split_once(']')?;
    newest_where(facts, pod, |event| {
        let volume = event.message.split_once("failed for volume \"");
        let volume = volume.and_then(|(_, rest)| rest.split_once('"'));
        CANNOT_PREPARE.contains(&event.reason.as_str())
            && volume.is_some_and(|(name, _)| volumes.split([' ', ',']).any(|one| one == name))
    })
}

/// Explains why a running pod is not ready.
fn unready_causes(facts: &Facts<'_>, pod: &Pod) -> Vec<Cause> {
    let unsteady = crashes::unsteady(facts, pod);
    if !unsteady.is_empty() || pod.ready || pod.phase != PodPhase::Running {
        return unsteady;
    }
    let pod_label = pod_name(pod);
    let serves = facts.job.kind.serves();
    let restarted = pod
        .containers
        .iter()
        .filter(|_| serves)
        .find(|container| container.restarts > 0 && container.last_ended.is_some());
    if let Some(container) = restarted
        && !(facts.job.checked && container.started)
    {
        return crashes::looping(facts, pod, container);
    }
    let failing = newest(facts, pod, &["Unhealthy"]);
    let text = match failing {
        Some(event) => format!(
            "{pod_label} is running, but its probe has not succeeded: {}",
            event.message
        ),
        None if serves => format!("{pod_label} is running, but its probe has not succeeded"),
        None => format!("{pod_label} is running, but it is not ready"),
    };
    let logs = facts.logs(pod, pod.own_container(), false);
    let seen_in = if failing.is_some() { "events" } else { "pod" };
    vec![
        Cause::new("probe-starting", text, seen_in)
            .when(failing.and_then(|event| event.at))
            .helps("see its progress", Some(logs)),
    ]
}

fn newest<'f>(facts: &Facts<'f>, pod: &Pod, reasons: &[&str]) -> Option<&'f Event> {
    newest_where(facts, pod, |event| reasons.contains(&event.reason.as_str()))
}

fn newest_where<'f>(
    facts: &Facts<'f>,
    pod: &Pod,
    matches: impl Fn(&Event) -> bool,
) -> Option<&'f Event> {
    let object = format!("Pod/{}", pod.name);
    facts
        .events?
        .iter()
        .rev()
        .find(|event| event.object == object && matches(event))
}

/// Extracts the image from the kubelet's message, such as `Pulling image "x"`.
fn pulled(message: &str) -> String {
    let image = message.split('"').nth(1).unwrap_or(message);
    format!("its image is being pulled: {image}")
}
