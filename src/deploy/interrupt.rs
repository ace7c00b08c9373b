//! Waits for Ctrl-C or SIGTERM, so that a command can report what exists in the cluster before it
//! exits.

use tokio::sync::watch;

use gpuctl_local::platform::Endings;

/// Listens from the time it is created, so that no signal is lost between two waits.
#[derive(Clone)]
pub(crate) struct Interruption(watch::Receiver<u32>);

impl Interruption {
    pub(crate) fn listen() -> Self {
        let (sender, count) = watch::channel(0);
        // `all` skips signals to which the program cannot listen.
        for mut signals in Endings::all() {
            let sender = sender.clone();
            tokio::spawn(async move {
                while signals.next().await {
                    sender.send_modify(|count| *count += 1);
                }
            });
        }
        // This keeps the sender alive as long as there are receivers, even if no signal can be
        // received. Otherwise the channel would close.
        tokio::spawn(async move { sender.closed().await });
        Self(count)
    }

    /// Returns once the user has interrupted the program this many times.
    pub(crate) async fn times(&self, times: u32) {
        if self
            .0
            .clone()
            .wait_for(|count| *count >= times)
            .await
            .is_err()
        {
            // A closed channel is not an interruption.
            std::future::pending::<()>().await;
        }
    }
}
