//! Polls until a condition holds. Tests use this instead of a fixed sleep, which would be too short
//! on a loaded machine and too long on an idle one.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// The result of one attempt: `bool`, `Option` or `Result`.
pub trait Attempt {
    type Value;

    /// # Errors
    /// The last state, for the message of a test that timed out.
    fn outcome(self) -> Result<Self::Value, String>;
}

impl Attempt for bool {
    type Value = ();

    fn outcome(self) -> Result<(), String> {
        self.then_some(()).ok_or_else(|| "it is false".to_owned())
    }
}

impl<T> Attempt for Option<T> {
    type Value = T;

    fn outcome(self) -> Result<T, String> {
        self.ok_or_else(|| "there is no value".to_owned())
    }
}

impl<T, E: Debug> Attempt for Result<T, E> {
    type Value = T;

    fn outcome(self) -> Result<T, String> {
        self.map_err(|state| format!("{state:#?}"))
    }
}

/// Calls `ask` until it succeeds. `what` completes the sentence "timed out waiting until ...".
///
/// # Panics
/// If no attempt succeeds in time. The message contains the last state.
#[track_caller]
pub fn eventually<A: Attempt>(
    what: &str,
    within: Duration,
    mut ask: impl FnMut() -> A,
) -> A::Value {
    let end = Instant::now() + within;
    loop {
        match ask().outcome() {
            Ok(value) => return value,
            Err(state) => assert!(
                Instant::now() < end,
                "timed out waiting until {what}: {state}"
            ),
        }
        thread::sleep(PAUSE);
    }
}
