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

/// Shortest time between two looks at a job; changes of many pods come together.
const STEP: Duration = Duration::from_millis(500);
/// The same for lists, whose every look is several requests.
const LIST_STEP: Duration = Duration::from_secs(2);
/// Looks after a change: controllers write their own status a moment after that of the pods.
const AFTER: [Duration; 3] = [Duration::from_millis(700), Duration::from_millis(1500), Duration::from_secs(3)];
/// Longest time without a look: what no pod shows, and connections that died unnoticed.
const QUIET: Duration = Duration::from_secs(20);
/// The same for lists, which show metrics too.
const LIST_QUIET: Duration = Duration::from_secs(15);
/// Time between two looks of somebody who may not watch.
const UNWATCHED: Duration = Duration::from_secs(4);
/// Rest before a watch that ended is opened again: some proxies end each at once.
const REST: Duration = Duration::from_secs(2);
/// The server ends a watch after that many seconds; it is opened again.
const LONGEST: &str = "300";

/// Waits for changes of one job, or of all that may be seen.
pub(crate) struct Doorbell<'c> {
    step: Duration,
    quiet: Duration,
    ringing: Pin<Box<dyn Future<Output = Infallible> + 'c>>,
    rung: Rc<Notify>,
    /// Looks since the last change.
    looks: usize,
}

impl Connection {
    /// Returns a bell that rings when pods of the job change.
    pub(crate) fn doorbell<'c>(&'c self, namespace: &str, job: &str) -> Doorbell<'c> {
        self.bell(Some(namespace), &format!("{JOB}={job}"), STEP, QUIET)
    }

    /// Returns a bell that rings when pods of any job change, in one namespace or in all.
    pub(crate) fn doorbell_of_jobs(&self, namespace: Option<&str>) -> Doorbell<'_> {
        self.bell(namespace, JOB, LIST_STEP, LIST_QUIET)
    }

    fn bell(&self, namespace: Option<&str>, selector: &str, step: Duration, quiet: Duration) -> Doorbell<'_> {
        let query = [("watch", "1"), ("labelSelector", selector), ("timeoutSeconds", LONGEST)];
        let in_one = |namespace: &str| with_query(&format!("/api/v1/namespaces/{namespace}/pods"), &query);
        // Whoever may not watch everywhere sees the jobs of the context's namespace.
        let paths = match namespace {
            Some(namespace) => vec![in_one(namespace)],
            None => vec![with_query("/api/v1/pods", &query), in_one(&self.namespace)],
        };
        let rung = Rc::new(Notify::new());
        Doorbell { step, quiet, ringing: Box::pin(self.ring(paths, Rc::clone(&rung))), rung, looks: 0 }
    }

    /// Watches at the first of the paths where that is allowed, again and again.
    async fn ring(&self, paths: Vec<String>, rung: Rc<Notify>) -> Infallible {
        for path in paths {
            while self.stream(&path, false, |_| rung.notify_one()).await.map_or_else(|failure| failure.is_transient(), |()| true)
            {
                tokio::time::sleep(REST).await;
            }
        }
        loop {
            tokio::time::sleep(UNWATCHED).await;
            rung.notify_one();
        }
    }
}

impl Doorbell<'_> {
    /// Waits until it is time to look again, at the latest when something is `due`.
    pub(crate) async fn news(&mut self, due: Option<Instant>) {
        let (step, quiet) = (self.step, self.quiet);
        let left = due.map_or(quiet, |due| due.saturating_duration_since(Instant::now()));
        let longest = AFTER.get(self.looks).copied().unwrap_or(quiet).min(left).max(step);
        let rung = Rc::clone(&self.rung);
        let change = async {
            tokio::time::sleep(step).await;
            tokio::time::timeout(longest.saturating_sub(step), rung.notified()).await.is_ok()
        };
        tokio::select! {
            changed = change => self.looks = if changed { 0 } else { self.looks + 1 },
            never = &mut self.ringing => match never {},
        }
    }
}
