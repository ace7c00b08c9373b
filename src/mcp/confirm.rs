//! Issues words that confirm a change. A word is random, valid once for a few minutes, and bound to
//! one tool, its arguments and one cluster, so an agent cannot make a change without its preview.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use serde_json::{Map, Value};

/// Time for a person to review the preview.
pub(super) const VALID: Duration = Duration::from_secs(5 * 60);
/// Maximum number of unconfirmed changes. A further change replaces the oldest.
const MOST: usize = 64;

/// Words that are waiting to be used.
#[derive(Debug, Default)]
pub(super) struct Confirmations {
    /// Pending changes by word. Words are unguessable, so the timing of a lookup reveals nothing
    /// useful.
    waiting: HashMap<String, PendingChange>,
    issued: u64,
}

#[derive(Debug)]
struct PendingChange {
    change: String,
    /// UID of the object in the preview.
    uid: Option<String>,
    until: Instant,
    order: u64,
}

/// Why a word does not confirm a change.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConfirmRefusal {
    Unknown,
    Expired,
    OtherArguments,
}

impl Confirmations {
    /// Issues a word for a change. Returns `None` if the system has no random numbers.
    pub(super) fn issue(
        &mut self,
        change: &str,
        uid: Option<String>,
        now: Instant,
    ) -> Option<String> {
        self.waiting.retain(|_, waiting| waiting.until > now);
        if self.waiting.len() >= MOST {
            let oldest = self
                .waiting
                .iter()
                .min_by_key(|(_, waiting)| waiting.order)
                .map(|(word, _)| word.clone());
            oldest.and_then(|word| self.waiting.remove(&word));
        }
        let word = random_word(16)?;
        self.issued += 1;
        let waiting = PendingChange {
            change: change.to_owned(),
            uid,
            until: now + VALID,
            order: self.issued,
        };
        self.waiting.insert(word.clone(), waiting);
        Some(word)
    }

    /// Uses up a word, even if it belongs to another change. Returns the UID of the object in the
    /// preview.
    ///
    /// # Errors
    ///
    /// Fails if the word does not confirm this change.
    pub(super) fn redeem(
        &mut self,
        word: &str,
        change: &str,
        now: Instant,
    ) -> Result<Option<String>, ConfirmRefusal> {
        let waiting = self.waiting.remove(word).ok_or(ConfirmRefusal::Unknown)?;
        if waiting.until <= now {
            return Err(ConfirmRefusal::Expired);
        }
        if waiting.change != change {
            return Err(ConfirmRefusal::OtherArguments);
        }
        Ok(waiting.uid)
    }
}

impl ConfirmRefusal {
    /// The message for the agent.
    pub(super) fn message(&self, tool: &str) -> String {
        let reason = match self {
            Self::Unknown => "this server did not issue that word, or it was already used",
            Self::Expired => "the word has expired",
            Self::OtherArguments => {
                "the word was issued for other arguments, another cluster or another namespace"
            }
        };
        format!(
            "nothing was changed: `confirm` was refused, because {reason}\nhint: call `{tool}` without `confirm`, read the \
             answer, and pass the word that it ends with"
        )
    }
}

/// Identifies a change by tool, arguments, and the kubeconfig's server, user and namespace. Sorts
/// the arguments and omits null values.
pub(super) fn change(tool: &str, arguments: &Map<String, Value>, target: Option<&str>) -> String {
    let mut sorted: Vec<(&String, &Value)> = arguments
        .iter()
        .filter(|(name, value)| *name != "confirm" && !value.is_null())
        .collect();
    sorted.sort_by_key(|(name, _)| *name);
    serde_json::json!([tool, sorted, target]).to_string()
}

/// Returns `bytes` random bytes in hexadecimal, or `None` if the system has no random numbers.
pub(super) fn random_word(bytes: usize) -> Option<String> {
    let mut random = vec![0; bytes];
    rand::fill(&mut random).ok()?;
    Some(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(tool: &str, arguments: Value) -> String {
        change(
            tool,
            arguments.as_object().unwrap(),
            Some("https://a eva ml"),
        )
    }

    #[test]
    fn a_confirmation_word_works_once() {
        let (mut confirmations, now) = (Confirmations::default(), Instant::now());
        let delete = of("delete_job", json!({"job": "a", "namespace": "ml"}));
        let word = confirmations
            .issue(&delete, Some("uid".to_owned()), now)
            .unwrap();
        assert_eq!(word.len(), 32);
        // Neither the order of arguments nor null values distinguish two changes.
        let same_change = of(
            "delete_job",
            json!({"namespace": "ml", "confirm": word, "job": "a"}),
        );
        assert_eq!(
            confirmations.redeem(&word, &same_change, now),
            Ok(Some("uid".to_owned()))
        );
        assert_eq!(
            confirmations.redeem(&word, &same_change, now),
            Err(ConfirmRefusal::Unknown)
        );
        assert_eq!(
            confirmations.redeem("", &same_change, now),
            Err(ConfirmRefusal::Unknown)
        );
    }

    #[test]
    fn a_confirmation_word_belongs_to_its_tool_and_arguments() {
        let (mut confirmations, now) = (Confirmations::default(), Instant::now());
        let delete = of("delete_job", json!({"job": "a"}));
        for other_change in [
            of("delete_job", json!({"job": "b"})),
            of("delete_pool", json!({"job": "a"})),
            of("delete_job", json!({"job": "a", "namespace": "x"})),
            of("delete_job", json!({"job": "a\",\"namespace\":\"x"})),
            change(
                "delete_job",
                json!({"job": "a"}).as_object().unwrap(),
                Some("https://b eva ml"),
            ),
            change("delete_job", json!({"job": "a"}).as_object().unwrap(), None),
        ] {
            let word = confirmations.issue(&delete, None, now).unwrap();
            assert_eq!(
                confirmations.redeem(&word, &other_change, now),
                Err(ConfirmRefusal::OtherArguments)
            );
            assert_eq!(
                confirmations.redeem(&word, &delete, now),
                Err(ConfirmRefusal::Unknown),
                "it is used up"
            );
        }
    }

    #[test]
    fn a_confirmation_word_expires() {
        let (mut confirmations, now) = (Confirmations::default(), Instant::now());
        let word = confirmations.issue("x", None, now).unwrap();
        assert_eq!(
            confirmations.redeem(&word, "x", now + VALID),
            Err(ConfirmRefusal::Expired)
        );
        let word = confirmations.issue("x", None, now).unwrap();
        assert_eq!(
            confirmations.redeem(
                &word,
                "x",
                (now + VALID).checked_sub(Duration::from_millis(1)).unwrap()
            ),
            Ok(None)
        );
    }

    #[test]
    fn the_oldest_word_is_dropped_first() {
        let (mut confirmations, now) = (Confirmations::default(), Instant::now());
        let words: Vec<String> = (0..MOST + 3)
            .map(|_| confirmations.issue("x", None, now).unwrap())
            .collect();
        assert_eq!(confirmations.waiting.len(), MOST);
        assert_eq!(
            confirmations.redeem(&words[2], "x", now),
            Err(ConfirmRefusal::Unknown)
        );
        assert_eq!(confirmations.redeem(&words[3], "x", now), Ok(None));
        confirmations.issue("x", None, now + VALID).unwrap();
        assert_eq!(confirmations.waiting.len(), 1, "expired words go first");
    }
}
