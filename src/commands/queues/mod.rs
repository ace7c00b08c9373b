//! Commands for queues.

pub(crate) mod describe;
pub(crate) mod get;

use gpuctl_cluster::{Connection, ServedQueueing};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};

/// Note or error for a cluster without a queueing system.
const NOT_SERVED: &str =
    "this cluster has no queueing system: neither Kueue nor Volcano is installed";

/// Returns the queueing systems that the cluster serves, or an error if it serves none.
async fn served(connection: &Connection) -> Result<ServedQueueing, Error> {
    let served = connection.queues().served().await?;
    if served.systems().next().is_none() {
        let error = Error::new(
            ErrorName::reported(ErrorKind::NotFound, "QueueNotServed"),
            NOT_SERVED,
        );
        return Err(error.hint("`gpuctl get quotas` shows what each namespace may use"));
    }
    Ok(served)
}
