//! Tells when pods of a job change, so that whoever waits for it need not ask all the time: two hundred people who wait would be
//! an outage. It knows nothing of what changed; the one who waits looks.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::Connection;
use super::http::with_query;
use crate::model::labels::JOB;

/// Shortest time between two looks; changes of many pods come together.
const STEP: Duration = Duration::from_millis(500);
/// Looks after a change: controllers write their own status a moment after that of the pods.
const AFTER: [Duration; 3] = [Duration::from_millis(700), Duration::from_millis(1500), Duration::from_secs(3)];
/// Longest time without a look: what no pod shows, and connections that died unnoticed.
const QUIET: Duration = Duration::from_secs(20);
/// Time between two looks of somebody who may not watch.
const UNWATCHED: Duration = Duration::from_secs(4);
/// Rest before a watch that ended is opened again: some proxies end each at once.
const REST: Duration = Duration::from_secs(2);
/// The server ends a watch after that many seconds; it is opened again.
const LONGEST: &str = "300";

/// Waits for changes of one job.
pub(crate) struct Doorbell<'c> {
    ringing: Pin<Box<dyn Future<Output = Infallible> + 'c>>,
    rung: Rc<Notify>,
    /// Looks since the last change.
    looks: usize,
}

impl Connection {
    /// Returns a bell that rings when pods of the job change.
    pub(crate) fn doorbell<'c>(&'c self, namespace: &str, job: &str) -> Doorbell<'c> {
        let selector = format!("{JOB}={job}");
        let query = [("watch", "1"), ("labelSelector", selector.as_str()), ("timeoutSeconds", LONGEST)];
        let path = with_query(&format!("/api/v1/namespaces/{namespace}/pods"), &query);
        let rung = Rc::new(Notify::new());
        Doorbell { ringing: Box::pin(self.ring(path, Rc::clone(&rung))), rung, looks: 0 }
    }

    async fn ring(&self, path: String, rung: Rc<Notify>) -> Infallible {
        loop {
            let ended = self.stream(&path, false, |_| rung.notify_one()).await;
            if ended.is_err_and(|failure| !failure.is_transient()) {
                loop {
                    tokio::time::sleep(UNWATCHED).await;
                    rung.notify_one();
                }
            }
            tokio::time::sleep(REST).await;
        }
    }
}

impl Doorbell<'_> {
    /// Waits until it is time to look again, at the latest when something is `due`.
    pub(crate) async fn news(&mut self, due: Option<Instant>) {
        let left = due.map_or(QUIET, |due| due.saturating_duration_since(Instant::now()).max(STEP));
        let longest = AFTER.get(self.looks).copied().unwrap_or(QUIET).min(left);
        let rung = Rc::clone(&self.rung);
        let change = async {
            tokio::time::sleep(STEP).await;
            tokio::time::timeout(longest.saturating_sub(STEP), rung.notified()).await.is_ok()
        };
        tokio::select! {
            changed = change => self.looks = if changed { 0 } else { self.looks + 1 },
            never = &mut self.ringing => match never {},
        }
    }
}
