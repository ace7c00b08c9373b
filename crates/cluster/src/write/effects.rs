//! Says what applying the objects of a document would do.

use serde_json::Value;

use super::companions::{is_token, label, tolerated};
use super::repair::{FixedState, Repair};
use crate::{Blame, Failure, OwnedObject};
use gpuctl_manifest::render::Object;

/// What applying one object does.
#[derive(Clone, Debug)]
pub enum Effect {
    /// It is not there yet.
    Made,
    Nothing,
    /// What is there, and what would be.
    Changed {
        live: Value,
        wanted: Value,
    },
    /// It differs in what cannot be changed; `wanted` is what was to be sent.
    Fixed {
        live: Value,
        wanted: Value,
    },
    /// An immutable object that differs from its original state and can be repaired.
    Repaired(Box<Repair>),
    /// Others own these fields and have other values there.
    Conflict(Vec<Blame>),
}

/// What applying a document does.
#[derive(Clone, Debug)]
pub struct Effects {
    pub objects: Vec<(Object, Effect)>,
    /// Objects of the job that the document does not describe any more.
    pub stale: Vec<OwnedObject>,
    /// Values of other field managers are to be overwritten.
    pub force: bool,
    /// An autoscaler goes, and its number of pods with it.
    pub(super) scaled: bool,
    /// The YAML is the one that was submitted.
    pub same_source: bool,
    /// Defaults that are newer than the job, and wait for the next change of its YAML.
    pub waiting: Vec<&'static str>,
    pub warnings: Vec<String>,
    /// Immutable objects that differ from their original state and cannot be repaired.
    pub lost: Vec<String>,
}

impl Effects {
    /// Adds the effect of one object, and warnings where it cannot be judged.
    pub(super) fn add(
        &mut self,
        object: Object,
        judged: Result<Judged, Failure>,
    ) -> Result<(), Failure> {
        let effect = match judged {
            Ok(Judged::Effect(effect)) => {
                if is_token(&object) && matches!(effect, Effect::Made) {
                    self.warnings.push(format!(
                        "{} gets a new token: restart all ranks, which have the old one",
                        label(&object)
                    ));
                }
                effect
            }
            Ok(Judged::Lost(message)) => {
                self.lost.push(message);
                Effect::Nothing
            }
            // A bundle has no Secrets.
            Err(Failure::NotInBundle(_)) if is_token(&object) => Effect::Nothing,
            // Pods that run have the token already.
            Err(failure) if is_token(&object) && failure.is_forbidden() => {
                self.warnings
                    .push(format!("{} is not checked: {failure}", label(&object)));
                Effect::Nothing
            }
            Err(failure) => {
                self.warnings.push(tolerated(&object, failure)?);
                Effect::Nothing
            }
        };
        self.objects.push((object, effect));
        Ok(())
    }

    pub fn is_nothing(&self) -> bool {
        self.stale.is_empty()
            && self
                .objects
                .iter()
                .all(|(_, effect)| matches!(effect, Effect::Nothing))
    }
}

/// What is known about applying one object.
pub(super) enum Judged {
    Effect(Effect),
    /// The object differs from its original state and cannot be repaired; says how.
    Lost(String),
}

impl From<FixedState> for Judged {
    fn from(state: FixedState) -> Self {
        match state {
            FixedState::Missing => Self::Effect(Effect::Made),
            FixedState::Intact => Self::Effect(Effect::Nothing),
            FixedState::Broken(repair) => Self::Effect(Effect::Repaired(repair)),
            FixedState::Lost(message) => Self::Lost(message),
        }
    }
}
