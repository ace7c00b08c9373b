//! Labels, annotations and names that gpuctl writes into the cluster. gpuctl finds its objects by
//! them, so a change here orphans the objects of older versions.

/// The common label of the tool that manages an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`] on objects that gpuctl manages.
pub const MANAGED_BY_US: &str = "gpuctl";
/// The job that an object or pod belongs to.
pub const JOB: &str = "gpuctl/job";
/// The ended job whose claims a pod of `cp` reads. Such a pod does not belong to the job, although
/// it is deleted with it.
pub const COPY_OF: &str = "gpuctl/copy-of";
/// The kind of the document, for example `training` or `pool`.
pub const KIND: &str = "gpuctl/kind";
/// The user who submitted the job.
pub const USER: &str = "gpuctl/user";
/// The GPU type that the job requests.
pub const GPU_TYPE: &str = "gpuctl/gpu-type";
/// The submitted YAML. Only the root object has this annotation: in a pod template, editing a YAML
/// comment would start a rollout.
pub const SOURCE: &str = "gpuctl/source";
/// The values that the job takes from the site's defaults, as a JSON object that maps fields to
/// values.
pub const DEFAULTS: &str = "gpuctl/defaults";
/// The version of the job's specification.
pub const VERSION: &str = "gpuctl/spec-version";
/// The number of times that each pod may be retried.
pub const RETRIES: &str = "gpuctl/retries";
/// The time at which a user last restarted the pods of a service. It is set on the pod template.
pub const RESTARTED: &str = "gpuctl/restarted-at";
/// The number of replicas that a paused service or notebook had before the pause.
pub const REPLICAS: &str = "gpuctl/replicas";
/// Kueue's label for the LocalQueue, set on the object that owns the pods.
pub const KUEUE_QUEUE: &str = "kueue.x-k8s.io/queue-name";
/// Kueue's annotation on a pod template. It names the node label whose topology domain should hold
/// all pods. Kueue falls back to wider domains.
pub const KUEUE_TOPOLOGY: &str = "kueue.x-k8s.io/podset-preferred-topology";
/// LeaderWorkerSet's pod labels: the name of the set, the index of the replica, and the index of
/// the pod within the replica.
pub const GROUP: &str = "leaderworkerset.sigs.k8s.io/name";
pub const GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
pub const GROUP_RANK: &str = "leaderworkerset.sigs.k8s.io/worker-index";
/// LeaderWorkerSet's pod label for the version of the pod template.
pub const GROUP_REVISION: &str = "leaderworkerset.sigs.k8s.io/template-revision-hash";
/// Volcano's pod annotation for the queue.
pub const VOLCANO_QUEUE: &str = "scheduling.volcano.sh/queue-name";
/// Volcano's annotation on the object that owns the pods: the minimum number of pods that Volcano
/// schedules together.
pub const VOLCANO_GROUP_SIZE: &str = "scheduling.volcano.sh/group-min-member";
/// The pod label that names the PodGroup, for the coscheduling plugin of scheduler-plugins.
pub const COSCHEDULING_GROUP: &str = "scheduling.x-k8s.io/pod-group";
/// Marks a job that a user paused. Without this mark, it would look like a job that Kueue
/// suspended.
pub const PAUSED: &str = "gpuctl/paused";
/// The name in the file, if `--generate-name` added a suffix to it.
pub const NAME: &str = "gpuctl/name";
/// `job.description`, or the description of a quota.
pub const DESCRIPTION: &str = "gpuctl/description";
/// The quota that an object belongs to.
pub const QUOTA: &str = "gpuctl/quota";
/// Set on a namespace that other users must not read.
pub const PRIVATE: &str = "gpuctl/private";
/// The run of gpuctl that created an object. It tells an object of an earlier attempt from one that
/// another user created.
pub const RUN: &str = "gpuctl/run";
/// The pool that a node belongs to. The jobs of the pool have this label too.
pub const POOL_LABEL: &str = "gpuctl/pool";
/// The UID of the namespace `HOME`, as an annotation on a ClusterRole. Only administrators can
/// create ClusterRoles, so the annotation proves that an administrator created the namespace.
pub const HOME_UID: &str = "gpuctl/namespace-uid";
/// The namespace that contains gpuctl's cluster-wide objects.
pub const HOME: &str = "gpuctl-system";
/// Prefix of the name that a pod gives its request for devices from a claim. The number of devices
/// follows the prefix, because it appears nowhere else in the pod.
pub const CLAIMED_GPUS: &str = "gpus-";
/// The volume that contains the supervisor, and the name of its file. The supervisor is the program
/// that keeps the ranks in step.
pub const SUPERVISOR_VOLUME: &str = "supervisor";
pub const SUPERVISOR_FILE: &str = "supervisor.py";
/// The file with the token that all ranks of a training share. It is in the same directory.
pub const TOKEN_FILE: &str = "token";
/// The type of the Secret that contains this token.
pub const TOKEN_TYPE: &str = "gpuctl/supervisor-token";
/// The SHA-256 hash of the supervisor that a Job was created with, as an annotation on the Job.
/// Newer versions of gpuctl may contain a different supervisor.
pub const SUPERVISOR_HASH: &str = "gpuctl/supervisor-sha256";
/// Set on the ConfigMap of `files:` once `apply` has changed its content, as an annotation. Pods that
/// were created before keep the old content.
pub const FILES_CHANGED: &str = "gpuctl/files-changed";
/// Prefix of the termination message that the supervisor writes. It is followed by a reason, `: `
/// and a sentence.
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
