//! Labels, annotations and names that gpuctl writes into the cluster. gpuctl finds its objects by
//! them, so changing one orphans the objects of older versions.

/// Kubernetes' recommended label for the tool that manages an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`] on gpuctl's objects.
pub const MANAGED_BY_US: &str = "gpuctl";
/// Label with the job that an object or pod belongs to.
pub const JOB: &str = "gpuctl/job";
/// Label on a pod that `cp` creates to read the claims of an ended job, with the job's name. The
/// pod is deleted with the job but is not one of its pods.
pub const COPY_OF: &str = "gpuctl/copy-of";
/// Label with the kind of the document, for example `training` or `pool`.
pub const KIND: &str = "gpuctl/kind";
/// Label with the user who submitted the job.
pub const USER: &str = "gpuctl/user";
/// Label with the GPU type that the job requests.
pub const GPU_TYPE: &str = "gpuctl/gpu-type";
/// Annotation with the submitted YAML. Only the root object has it: in a pod template, editing a
/// YAML comment would start a rollout.
pub const SOURCE: &str = "gpuctl/source";
/// Annotation with the values that the job takes from the site defaults, as a JSON object that maps
/// fields to values.
pub const DEFAULTS: &str = "gpuctl/defaults";
/// Version of the job's specification.
pub const VERSION: &str = "gpuctl/spec-version";
/// Number of times that each pod may be retried.
pub const RETRIES: &str = "gpuctl/retries";
/// Time at which a user last restarted the pods of a service. Set on the pod template.
pub const RESTARTED: &str = "gpuctl/restarted-at";
/// Number of replicas that a paused service or notebook had before the pause.
pub const REPLICAS: &str = "gpuctl/replicas";
/// Kueue's label for the LocalQueue, set on the object that owns the pods.
pub const KUEUE_QUEUE: &str = "kueue.x-k8s.io/queue-name";
/// Kueue's label for the WorkloadPriorityClass, set on the object that owns the pods.
pub const KUEUE_PRIORITY: &str = "kueue.x-k8s.io/priority-class";
/// Kueue's annotation on a pod template with a node label. Kueue tries to place all pods in one
/// topology domain of that label, and falls back to wider domains.
pub const KUEUE_TOPOLOGY: &str = "kueue.x-k8s.io/podset-preferred-topology";
/// LeaderWorkerSet's pod labels: name of the set, index of the replica, and index of the pod within
/// the replica.
pub const GROUP: &str = "leaderworkerset.sigs.k8s.io/name";
pub const GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
pub const GROUP_RANK: &str = "leaderworkerset.sigs.k8s.io/worker-index";
/// LeaderWorkerSet's pod label for the version of the pod template.
pub const GROUP_REVISION: &str = "leaderworkerset.sigs.k8s.io/template-revision-hash";
/// Volcano's pod annotation for the queue.
pub const VOLCANO_QUEUE: &str = "scheduling.volcano.sh/queue-name";
/// Volcano's annotation on the owner of the pods: the minimum number of pods that Volcano schedules
/// together.
pub const VOLCANO_GROUP_SIZE: &str = "scheduling.volcano.sh/group-min-member";
/// Pod label of the coscheduling plugin of scheduler-plugins, with the name of the PodGroup.
pub const COSCHEDULING_GROUP: &str = "scheduling.x-k8s.io/pod-group";
/// Marks a job that a user paused. Kueue suspends jobs too, without this annotation.
pub const PAUSED: &str = "gpuctl/paused";
/// Annotation with the name in the file, if `--generate-name` added a suffix.
pub const NAME: &str = "gpuctl/name";
/// Annotation with `job.description`, or the description of a quota.
pub const DESCRIPTION: &str = "gpuctl/description";
/// The quota that an object belongs to.
pub const QUOTA: &str = "gpuctl/quota";
/// Marks a namespace that other users must not read.
pub const PRIVATE: &str = "gpuctl/private";
/// The run of gpuctl that created an object. It distinguishes objects of an earlier attempt from
/// objects that another user created.
pub const RUN: &str = "gpuctl/run";
/// Label with the pool of a node, also set on the jobs of the pool.
pub const POOL_LABEL: &str = "gpuctl/pool";
/// Annotation on a ClusterRole with the UID of the namespace `HOME`. Only administrators can create
/// ClusterRoles, so the annotation proves that an administrator created the namespace.
pub const HOME_UID: &str = "gpuctl/namespace-uid";
/// Namespace of gpuctl's cluster-wide objects.
pub const HOME: &str = "gpuctl-system";
/// Prefix of the name that a pod gives to its device request in a claim. The number of devices
/// follows it, because the pod contains that number nowhere else.
pub const CLAIMED_GPUS: &str = "gpus-";
/// Name of the volume with the supervisor, and of its file. The supervisor starts and restarts all
/// ranks of a training together.
pub const SUPERVISOR_VOLUME: &str = "supervisor";
pub const SUPERVISOR_FILE: &str = "supervisor.py";
/// File with the token that all ranks of a training share, next to the supervisor.
pub const TOKEN_FILE: &str = "token";
/// Type of the Secret that contains the token in `TOKEN_FILE`.
pub const TOKEN_TYPE: &str = "gpuctl/supervisor-token";
/// Annotation on a Job with the SHA-256 hash of its supervisor, because newer versions of gpuctl
/// may contain a different supervisor.
pub const SUPERVISOR_HASH: &str = "gpuctl/supervisor-sha256";
/// Set on the ConfigMap of `files:` once `apply` has changed its content, as an annotation. Pods that
/// were created before keep the old content.
pub const FILES_CHANGED: &str = "gpuctl/files-changed";
/// Prefix of the supervisor's termination message. A reason, `: ` and a sentence follow it.
pub const TERMINATION_PREFIX: &str = "gpuctl/";
/// Name of the volume that is mounted at `/dev/shm`.
pub const SHARED_MEMORY_VOLUME: &str = "shm";

/// Returns true if Kubernetes accepts `text` as a label value.
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
