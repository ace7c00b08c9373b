//! Hands a job over to the queueing system of the cluster (`job.queue`). Where the cluster has none, the field is an error:
//! otherwise the job would run past its team's quota unnoticed.

use serde_json::json;

use crate::model::JobKind;
use crate::spec::JobDocument;

use super::{Object, Queueing, Refusal, Target};

const VOLCANO_QUEUE: &str = "scheduling.volcano.sh/queue-name";

/// Marks the owner of the pods, and its template where the queueing system reads that.
pub(super) fn queue(job: &JobDocument, target: &Target, root: &mut Object) -> Result<(), Refusal> {
    let Some(queue) = &job.queue else { return Ok(()) };
    match target.queueing {
        Some(Queueing::Kueue) => root.body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = json!(queue),
        Some(Queueing::Volcano) => {
            root.body["metadata"]["annotations"][VOLCANO_QUEUE] = json!(queue);
            if job.kind == JobKind::Training {
                root.body["metadata"]["annotations"]["scheduling.volcano.sh/group-min-member"] =
                    json!(job.training.node_count.to_string());
            } else {
                root.body["spec"]["template"]["metadata"]["annotations"][VOLCANO_QUEUE] = json!(queue);
                root.body["spec"]["template"]["spec"]["schedulerName"] = json!("volcano");
            }
        }
        None => {
            let message = format!("`job.queue: {queue}` asks for a queue, and this cluster serves none");
            return Err(Refusal::new("QueueNotServed", message, "remove `job.queue`, or install Kueue or Volcano"));
        }
    }
    Ok(())
}
