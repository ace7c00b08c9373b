//! Waits for Ctrl-C or SIGTERM, so that a command can report the state of the cluster before it
//! exits.

use tokio::sync::watch;

use gpuctl_core::error::ErrorName;
use gpuctl_local::platform::Endings;

/// Signals that have arrived so far.
#[derive(Clone, Copy, Default)]
struct Signals {
    count: u32,
    first: Option<u8>,
}

/// Counts signals from its creation on, so that none is lost between two waits.
#[derive(Clone)]
pub(crate) struct Interruption(watch::Receiver<Signals>);

impl Interruption {
    pub(crate) fn listen() -> Self {
        let (sender, signals) = watch::channel(Signals::default());
        // `all` omits signals that the program cannot handle.
        for mut endings in Endings::all() {
            let sender = sender.clone();
            tokio::spawn(async move {
                while let Some(number) = endings.next().await {
                    sender.send_modify(|signals| {
                        signals.count += 1;
                        signals.first.get_or_insert(number);
                    });
                }
            });
        }
        // Keep the sender alive while there are receivers. If no signal can be handled, no other
        // task holds the sender, and the channel would close.
        tokio::spawn(async move { sender.closed().await });
        Self(signals)
    }

    /// Returns once the user has interrupted the program this many times. The first signal
    /// determines the name of the error.
    pub(crate) async fn times(&self, times: u32) -> ErrorName {
        let mut signals = self.0.clone();
        let received = signals.wait_for(|signals| signals.count >= times).await;
        let first = received.map(|signals| signals.first);
        match first {
            Ok(first) => first.map_or(ErrorName::Interrupted, ErrorName::from_signal),
            // A closed channel is not an interruption.
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns the error name of an interruption that has already happened.
    pub(crate) fn received(&self) -> Option<ErrorName> {
        self.0.borrow().first.map(ErrorName::from_signal)
    }
}
