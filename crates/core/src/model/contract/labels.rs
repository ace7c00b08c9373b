//! The labels, annotations and names that gpuctl writes into the cluster. Everything of ours is
//! found by them, so a change here orphans what older versions made.

/// The common label that says which tool made an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Its value for ours.
pub const MANAGED_BY_US: &str = "gpuctl";
/// The job that an object or pod belongs to.
pub const JOB: &str = "gpuctl/job";
/// The kind of the document: `training`, `pool`, ….
pub const KIND: &str = "gpuctl/kind";
/// Who submitted it.
pub const USER: &str = "gpuctl/user";
/// The GPU type that the job asked for.
pub const GPU_TYPE: &str = "gpuctl/gpu-type";
/// The YAML that was submitted, on the root object only: in a pod template every edited comment
/// would be a rollout.
pub const SOURCE: &str = "gpuctl/source";
/// What the job has from the site's defaults, as JSON: field, value.
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
/// Kueue's annotation of a pod template: the label of nodes by which it places the pods near each
/// other, as far as there is room.
pub const KUEUE_TOPOLOGY: &str = "kueue.x-k8s.io/podset-preferred-topology";
/// LeaderWorkerSet's labels of pods: the set, the replica, and the number within it.
pub const GROUP: &str = "leaderworkerset.sigs.k8s.io/name";
pub const GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
pub const GROUP_RANK: &str = "leaderworkerset.sigs.k8s.io/worker-index";
/// LeaderWorkerSet's label of pods: the version of their template.
pub const GROUP_REVISION: &str = "leaderworkerset.sigs.k8s.io/template-revision-hash";
/// Volcano's annotation of pods: the Queue.
pub const VOLCANO_QUEUE: &str = "scheduling.volcano.sh/queue-name";
/// Volcano's annotation of the owner of pods: how many of them it places together.
pub const VOLCANO_GROUP_SIZE: &str = "scheduling.volcano.sh/group-min-member";
/// The label by which scheduler-plugins' coscheduling finds the PodGroup of a pod.
pub const COSCHEDULING_GROUP: &str = "scheduling.x-k8s.io/pod-group";
/// Somebody paused a job that a queue admits; the queue's own suspension looks the same.
pub const PAUSED: &str = "gpuctl/paused";
/// The name in the file, where `--generate-name` appended something to it.
pub const NAME: &str = "gpuctl/name";
/// `job.description`, or that of a quota.
pub const DESCRIPTION: &str = "gpuctl/description";
/// The quota that an object belongs to.
pub const QUOTA: &str = "gpuctl/quota";
/// On the namespace when nobody else shall read it.
pub const PRIVATE: &str = "gpuctl/private";
/// Which run made an object: what tells an earlier try of ours from somebody else's object.
pub const RUN: &str = "gpuctl/run";
/// The label that puts a node into a pool, and a job beside it.
pub const POOL_LABEL: &str = "gpuctl/pool";
/// The UID of the namespace, on the ClusterRole that marks the namespace below as an
/// administrator's.
pub const HOME_UID: &str = "gpuctl/namespace-uid";
/// The namespace of what belongs to the whole cluster.
pub const HOME: &str = "gpuctl-system";
/// How a pod's request for claimed devices is called; behind it stands their number, which nothing
/// else in the pod tells.
pub const CLAIMED_GPUS: &str = "gpus-";
/// The volume and the file with the program that keeps ranks in step.
pub const SUPERVISOR_VOLUME: &str = "supervisor";
pub const SUPERVISOR_FILE: &str = "supervisor.py";
/// The file in the same folder with the token that all ranks of a training share.
pub const TOKEN_FILE: &str = "token";
/// The type of the Secret that contains that file.
pub const TOKEN_TYPE: &str = "gpuctl/supervisor-token";
/// The SHA-256 of the supervisor with which a Job was created, on the Job. Newer versions of gpuctl
/// contain other programs.
pub const SUPERVISOR_HASH: &str = "gpuctl/supervisor-sha256";
/// Prefix of the termination message that the supervisor of ranks writes; a reason, `: ` and a
/// sentence follow.
pub const TERMINATION_PREFIX: &str = "gpuctl/";
/// The volume behind `/dev/shm`.
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
