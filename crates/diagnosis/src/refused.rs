//! Explains why pods were not created: the API server rejected them, and their controller recorded
//! its message.

use super::answer::{Cause, Help};
use super::facts::Facts;
use gpuctl_core::model::contract::refusal::RefusalCause;

/// Classifies a rejection by the API server's message.
pub(super) fn cause(facts: &Facts<'_>, message: &str) -> Cause {
    let time = facts.event(&["FailedCreate"]).and_then(|event| event.at);
    let namespace = &facts.job.namespace;
    let cause = |word, text: String| Cause::new(word, text, "events").when(time);
    match RefusalCause::from_message(message) {
        Some(RefusalCause::QuotaExceeded) => cause("quota", exceeded_quota(namespace, message))
            .helps(
                "wait for other pods in the namespace to finish, or ask for a larger quota",
                Some(jobs_of(namespace)),
            ),
        Some(RefusalCause::QuotaUnset) => cause("quota", unset_in_quota(namespace, message)).helps(
            "set resources.cpu and resources.memory",
            Some(set(facts, "resources.cpu=8")),
        ),
        Some(RefusalCause::LimitRange) => cause("limit-range", limit_range(namespace, message))
            .helps(
                "request less per pod, or ask for a higher limit",
                Some(format!("kubectl get limitranges -n {namespace}")),
            ),
        Some(RefusalCause::PodSecurity) => cause(
            "pod-security",
            format!("Pod Security rejects its pods: {}", tail(message)),
        )
        .helps(
            "set `security:` as explained",
            Some("gpuctl explain security".to_owned()),
        ),
        Some(RefusalCause::WebhookDenied) => cause(
            "webhook-denied",
            format!("an admission webhook rejects its pods: {}", tail(message)),
        ),
        Some(RefusalCause::WebhookUnreachable) => {
            let webhook = between(message, "failed calling webhook \"", "\"").unwrap_or("unknown");
            cause("webhook-down", format!("webhook {webhook} is required for pods, but does not respond")).helps(
                "restore its service",
                Some(format!(
                    "kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations -o wide | grep {webhook}"
                )),
            )
        }
        Some(RefusalCause::PolicyDenied) => cause(
            "policy-denied",
            format!("a policy rejects its pods: {}", tail(message)),
        ),
        Some(RefusalCause::NamespaceTerminating) => terminating(namespace).when(time),
        Some(RefusalCause::NoServiceAccount) => no_service_account(namespace, message).when(time),
        Some(RefusalCause::NoPriorityClass) => {
            let class = after(message, "no PriorityClass with name ").unwrap_or("of its pods");
            cause(
                "priority-class-missing",
                format!("PriorityClass {class} does not exist"),
            )
        }
        _ => cause(
            "pods-refused",
            format!("the API server rejects its pods: {}", tail(message)),
        ),
    }
}

/// The cause of a job in a namespace that is being deleted. Nothing can be created in it.
pub(super) fn terminating(namespace: &str) -> Cause {
    let text = format!("namespace {namespace} is being deleted, so no pods can be created in it");
    Cause::new("namespace-terminating", text, "job").helps(
        "submit it in another namespace; the conditions show what delays the deletion",
        Some(format!("kubectl get namespace {namespace} -o yaml")),
    )
}

fn no_service_account(namespace: &str, message: &str) -> Cause {
    let account = between(message, "serviceaccount \"", "\"").unwrap_or("of its pods");
    let text = format!("ServiceAccount {account} does not exist in {namespace}");
    let make = format!(
        "kubectl create serviceaccount {} -n {namespace}",
        account.rsplit('/').next().unwrap_or(account)
    );
    Cause::new("service-account-missing", text, "events").helps("create it", Some(make))
}

fn exceeded_quota(namespace: &str, message: &str) -> String {
    let quota = after(message, "exceeded quota: ").unwrap_or("of the namespace");
    // The message has the form `exceeded quota: NAME, requested: …, used: …, limited: …`.
    let numbers =
        ["requested", "used", "limited"].map(|word| after_words(message, &format!("{word}: ")));
    match numbers {
        [Some(requested), Some(used), Some(limit)] => format!(
            "quota {quota} in {namespace} is used up: {used} of {limit} used; the pod requests {requested}"
        ),
        _ => format!("quota {quota} in {namespace} is used up"),
    }
}

fn unset_in_quota(namespace: &str, message: &str) -> String {
    let quota = after(message, "failed quota: ")
        .or_else(|| after(message, "Failed quota: "))
        .unwrap_or("of the namespace");
    let missing = after_words(message, "must specify ").unwrap_or("more");
    format!("quota {quota} in {namespace} requires values that the pod does not set: {missing}")
}

fn limit_range(namespace: &str, message: &str) -> String {
    let rule = message.rsplit(": ").next().unwrap_or(message);
    let rule = message
        .split_once("is forbidden: ")
        .map_or(rule, |(_, rule)| rule);
    format!("a LimitRange in {namespace} rejects its pods: {rule}")
}

fn jobs_of(namespace: &str) -> String {
    format!("gpuctl get jobs -n {namespace}")
}

/// Beginning of the command that changes an object which gpuctl did not create.
const EDIT: &str = "kubectl edit ";
/// Kinds whose pods no change of the object replaces. Every kind whose name ends in `job` is one
/// too, except cron jobs: the API server or the operator rejects the change, or ignores it.
const IMMUTABLE: [&str; 7] = [
    "pod",
    "jobset",
    "replicaset",
    "replicationcontroller",
    "workflow",
    "taskrun",
    "pipelinerun",
];

/// Commands of gpuctl that work only with its own jobs, or explain only its own files.
const OWN_COMMANDS: [&str; 5] = [
    "gpuctl delete job ",
    "gpuctl describe job ",
    "gpuctl explain ",
    "gpuctl restart job ",
    "gpuctl resume job ",
];
/// Fields of Kubernetes for fields of gpuctl's files.
const FIELDS: [(&str, &str); 2] = [
    ("environment.image_pull_secret", "pod.spec.imagePullSecrets"),
    ("security", "pod.spec.securityContext"),
];

/// Adapts a command to the object: the API server would reject a change of the pod template of a
/// Job or of the containers of a Pod, and gpuctl's own commands do not know other tools' objects.
pub(super) fn fit_to_subject(facts: &Facts<'_>, help: &mut Help) {
    let Some(command) = help.command.clone().filter(|_| !facts.subject.is_managed) else {
        return;
    };
    let kind = facts.subject.kind.as_str();
    let is_immutable =
        IMMUTABLE.contains(&kind) || (kind.ends_with("job") && !kind.ends_with("cronjob"));
    if is_immutable && command.starts_with(EDIT) {
        help.command = None;
        help.text = format!(
            "{} (delete the {kind} and create it again with this change, because it is immutable)",
            help.text
        );
    }
    if command.starts_with("gpuctl logs ") {
        let pods = facts.job.current_pods();
        help.command = pods
            .first()
            .map(|pod| facts.logs(pod, pod.own_container(), false));
    }
    if OWN_COMMANDS.iter().any(|own| command.starts_with(own)) {
        let field = command.strip_prefix("gpuctl explain ");
        let known = FIELDS.iter().find(|(own, _)| Some(*own) == field);
        help.command = known.map(|(_, field)| format!("kubectl explain {field}"));
    }
}

/// Returns the command that submits the job with one field changed.
pub(super) fn set(facts: &Facts<'_>, field: &str) -> String {
    if !facts.subject.is_managed {
        return format!(
            "{EDIT}{}/{} -n {}",
            facts.subject.kind, facts.job.name, facts.job.namespace
        );
    }
    // Replace a training, because the pod template of a Job is immutable.
    let replace = if facts.job.kind.serves() {
        ""
    } else {
        " --replace"
    };
    format!("gpuctl apply -f FILE --set {field}{replace}")
}

/// Returns the word after a phrase.
fn after<'m>(message: &'m str, words: &str) -> Option<&'m str> {
    let rest = &message[message.find(words)? + words.len()..];
    Some(
        rest.split([',', ' ', ':'])
            .next()
            .unwrap_or(rest)
            .trim_end_matches('.'),
    )
}

/// Returns the text after a phrase, up to the next comma and space.
fn after_words<'m>(message: &'m str, words: &str) -> Option<&'m str> {
    let rest = &message[message.find(words)? + words.len()..];
    Some(rest.split(", ").next().unwrap_or(rest))
}

fn between<'m>(message: &'m str, start: &str, end: &str) -> Option<&'m str> {
    let rest = &message[message.find(start)? + start.len()..];
    Some(&rest[..rest.find(end)?])
}

/// Returns the message without the name of the pod at its beginning.
fn tail(message: &str) -> &str {
    message
        .split_once("is forbidden: ")
        .map_or(message, |(_, rest)| rest)
}
