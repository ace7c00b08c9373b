//! Decides whether to repeat a request, and after which delay.
//!
//! Every request of gpuctl can be repeated, because it reads, applies or deletes one object.

use std::time::Duration;

use crate::Failure;

/// Outcome of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TryOutcome {
    /// No connection could be established.
    NotConnected,
    /// The connection was lost.
    Broken,
    /// An error status with its `Retry-After` in seconds.
    Status(u16, Option<u64>),
}

impl TryOutcome {
    /// Classifies a failure.
    pub(crate) fn from_failure(failure: &Failure) -> Self {
        match failure {
            // Do not retry, because a bundle always gives the same answer.
            Failure::NotInBundle(_) => Self::Status(404, None),
            other => other
                .code()
                .map_or(Self::Broken, |code| Self::Status(code, None)),
        }
    }
}

/// Maximum delay before an attempt, even if the server requests a longer one.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Maximum total delay of one request.
const ALL_WAITS: Duration = Duration::from_secs(30);

/// Returns the delay before the next attempt, or `None` to give up, after `tries` attempts with
/// delays of `waited` in total.
pub(crate) fn wait(outcome: TryOutcome, tries: u32, waited: Duration) -> Option<Duration> {
    let (max_tries, retry_after) = match outcome {
        TryOutcome::NotConnected | TryOutcome::Broken => (3, None),
        // Requests that API Priority and Fairness rejects, with 429 and `Retry-After`, were not
        // executed.
        TryOutcome::Status(429, retry_after) => (8, retry_after),
        TryOutcome::Status(502..=504, retry_after) => (4, retry_after),
        TryOutcome::Status(500, _) => (2, None),
        TryOutcome::Status(..) => return None,
    };
    let backoff = Duration::from_millis(200 << tries.min(6).saturating_sub(1));
    let pause = retry_after
        .map_or(backoff, Duration::from_secs)
        .min(LONGEST_WAIT);
    (tries < max_tries && waited + pause <= ALL_WAITS).then_some(pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of attempts and the total delay until `wait` gives up.
    fn spent(outcome: TryOutcome) -> (u32, Duration) {
        let (mut tries, mut waited) = (1, Duration::ZERO);
        while let Some(pause) = wait(outcome, tries, waited) {
            waited += pause;
            tries += 1;
        }
        (tries, waited)
    }

    #[test]
    fn a_retry_after_of_an_hour_is_not_obeyed() {
        assert_eq!(
            spent(TryOutcome::Status(429, Some(3600))),
            (4, Duration::from_secs(30))
        );
        assert_eq!(spent(TryOutcome::Status(429, Some(1))).0, 8);
    }

    #[test]
    fn refusals_are_not_repeated() {
        for code in [400, 401, 403, 404, 409, 410, 422] {
            assert_eq!(spent(TryOutcome::Status(code, None)).0, 1, "{code}");
        }
        assert_eq!(
            spent(TryOutcome::Status(500, None)),
            (2, Duration::from_millis(200))
        );
        assert_eq!(spent(TryOutcome::Broken), (3, Duration::from_millis(600)));
        assert_eq!(
            spent(TryOutcome::Status(503, None)),
            (4, Duration::from_millis(1400))
        );
    }
}
