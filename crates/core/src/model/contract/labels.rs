//! Labels, annotations and names that gpuctl writes into the cluster. gpuctl finds its objects by
//! them, so a change here orphans the objects of older versions.

/// The common label of the tool that manages an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Its value on objects that gpuctl manages.
pub const MANAGED_BY_US: &str = "gpuctl";
/// The job of an object or pod.
pub const JOB: &str = "gpuctl/job";
/// The kind of the document: `training`, `pool`, ….
pub const KIND: &str = "gpuctl/kind";
/// The user who submitted it.
pub const USER: &str = "gpuctl/user";
/// The GPU type that the job requests.
pub const GPU_TYPE: &str = "gpuctl/gpu-type";
/// The submitted YAML, on the root object only: in a pod template, editing a comment would start a
/// rollout.
pub const SOURCE: &str = "gpuctl/source";
/// The values that the job takes from the site's defaults, as JSON: field, value.
pub const DEFAULTS: &str = "gpuctl/defaults";
/// The version of the specification.
pub const VERSION: &str = "gpuctl/spec-version";
/// Retries of each pod.
pub const RETRIES: &str = "gpuctl/retries";
/// When the pods of a service were last replaced on request, on its template.
pub const RESTARTED: &str = "gpuctl/restarted-at";
/// The number of pods that a paused service or notebook had.
pub const REPLICAS: &str = "gpuctl/replicas";
/// Kueue's label on the owner of pods: the LocalQueue.
pub const KUEUE_QUEUE: &str = "kueue.x-k8s.io/queue-name";
/// Kueue's annotation of a pod template: the node label whose topology domain should hold all pods.
/// Kueue falls back to wider domains.
pub const KUEUE_TOPOLOGY: &str = "kueue.x-k8s.io/podset-preferred-topology";
/// LeaderWorkerSet's labels of pods: the set, the index of the replica, and the index of the pod in
/// the replica.
pub const GROUP: &str = "leaderworkerset.sigs.k8s.io/name";
pub const GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
pub const GROUP_RANK: &str = "leaderworkerset.sigs.k8s.io/worker-index";
/// LeaderWorkerSet's label of pods: the version of their template.
pub const GROUP_REVISION: &str = "leaderworkerset.sigs.k8s.io/template-revision-hash";
/// Volcano's annotation of pods: the queue.
pub const VOLCANO_QUEUE: &str = "scheduling.volcano.sh/queue-name";
/// Volcano's annotation of the owner of pods: the minimum number of pods that it schedules
/// together.
pub const VOLCANO_GROUP_SIZE: &str = "scheduling.volcano.sh/group-min-member";
/// Pod label that names the PodGroup for the coscheduling plugin of scheduler-plugins.
pub const COSCHEDULING_GROUP: &str = "scheduling.x-k8s.io/pod-group";
/// Marks a job that a user paused. A suspension by Kueue looks the same.
pub const PAUSED: &str = "gpuctl/paused";
/// The name in the file, when `--generate-name` added a suffix.
pub const NAME: &str = "gpuctl/name";
/// `job.description`, or the description of a quota.
pub const DESCRIPTION: &str = "gpuctl/description";
/// The quota that an object belongs to.
pub const QUOTA: &str = "gpuctl/quota";
/// Set on a namespace that other users must not read.
pub const PRIVATE: &str = "gpuctl/private";
/// The run that created an object. It distinguishes an object of an earlier attempt from one that
/// another user created.
pub const RUN: &str = "gpuctl/run";
/// The pool of a node. Jobs of the pool carry it too.
pub const POOL_LABEL: &str = "gpuctl/pool";
/// The UID of the namespace `HOME`, as an annotation of a ClusterRole. It marks the namespace as
/// created by an administrator, because other users cannot create ClusterRoles.
pub const HOME_UID: &str = "gpuctl/namespace-uid";
/// The namespace of gpuctl's cluster-wide objects.
pub const HOME: &str = "gpuctl-system";
/// Prefix of the name of a pod's request for claimed devices. The number of devices follows,
/// because the pod states it nowhere else.
pub const CLAIMED_GPUS: &str = "gpus-";
/// The volume and the file with the supervisor, the program that keeps ranks in step.
pub const SUPERVISOR_VOLUME: &str = "supervisor";
pub const SUPERVISOR_FILE: &str = "supervisor.py";
/// The file in the same directory with the token that all ranks of a training share.
pub const TOKEN_FILE: &str = "token";
/// The type of the Secret that contains the token.
pub const TOKEN_TYPE: &str = "gpuctl/supervisor-token";
/// The SHA-256 of the supervisor with which a Job was created, as an annotation of the Job. Newer
/// versions of gpuctl may contain another supervisor.
pub const SUPERVISOR_HASH: &str = "gpuctl/supervisor-sha256";
/// Prefix of the termination message that the supervisor writes. A reason, `: ` and a sentence
/// follow.
pub const TERMINATION_PREFIX: &str = "gpuctl/";
/// The volume mounted at `/dev/shm`.
pub const SHARED_MEMORY_VOLUME: &str = "shm";

/// Whether Kubernetes accepts `text` as a label value.
pub fn is_label_value(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    text.is_empty()
        || (text.len() <= 63
            && text.starts_with(edge)
            && text.ends_with(edge)
            && text
                .chars()
                .all(|c| edge(c) || matches!(c, '-' | '_' | '.')))
}
