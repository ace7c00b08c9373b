//! Waits for Ctrl-C or SIGTERM, so that a command can say what exists in the cluster before it
//! ends.

use tokio::sync::watch;

use gpuctl_local::platform::Endings;

/// Listens from its making on: a signal that comes while nobody waits for it is not lost.
#[derive(Clone)]
pub(crate) struct Interruption(watch::Receiver<u32>);

impl Interruption {
    pub(crate) fn listen() -> Self {
        let (count, seen) = watch::channel(0);
        // Where a signal cannot be heard there is none to wait for.
        for mut endings in Endings::all() {
            let count = count.clone();
            tokio::spawn(async move {
                while endings.next().await {
                    count.send_modify(|seen| *seen += 1);
                }
            });
        }
        // The sender lives as long as whoever listens, also where no signal can be heard.
        tokio::spawn(async move { count.closed().await });
        Self(seen)
    }

    /// Ends when somebody has wanted the program to end this many times.
    pub(crate) async fn times(&self, times: u32) {
        if self
            .0
            .clone()
            .wait_for(|seen| *seen >= times)
            .await
            .is_err()
        {
            std::future::pending::<()>().await;
        }
    }
}
