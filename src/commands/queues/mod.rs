//! Commands about queues.

pub(crate) mod describe;
pub(crate) mod get;

use gpuctl_cluster::{Connection, ServedQueueing};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};

/// Determines which queueing systems the cluster serves. Returns an error if it serves none.
async fn served(connection: &Connection) -> Result<ServedQueueing, Error> {
    let served = connection.queues().served().await?;
    if served.systems().next().is_none() {
        let error = Error::new(
            ErrorName::reported(ErrorKind::NotFound, "QueueNotServed"),
            "this cluster has no queueing system",
        );
        return Err(error.hint("gpuctl supports Kueue and Volcano; without them, `gpuctl get quotas` shows what each namespace may use"));
    }
    Ok(served)
}
