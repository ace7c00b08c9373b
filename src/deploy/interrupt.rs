//! Waits for Ctrl-C or SIGTERM, so that a command can say what exists in the cluster before it ends.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Listens from its making on: a signal that comes while nobody waits for it is not lost.
#[derive(Clone)]
pub(crate) struct Interruption(watch::Receiver<u32>);

impl Interruption {
    #[must_use]
    pub(crate) fn listen() -> Self {
        let (count, seen) = watch::channel(0);
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        // Where a signal cannot be heard there is none to wait for.
        for mut stream in kinds.into_iter().filter_map(|kind| signal(kind).ok()) {
            let count = count.clone();
            tokio::spawn(async move { heard(&mut stream, &count).await });
        }
        // The sender lives as long as whoever listens, also where no signal can be heard.
        tokio::spawn(async move { count.closed().await });
        Self(seen)
    }

    /// Ends when somebody has wanted the program to end this many times.
    pub(crate) async fn times(&self, times: u32) {
        if self.0.clone().wait_for(|seen| *seen >= times).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn heard(stream: &mut Signal, count: &watch::Sender<u32>) {
    while stream.recv().await.is_some() {
        count.send_modify(|seen| *seen += 1);
    }
}
