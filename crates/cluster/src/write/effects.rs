//! Effects of applying the objects of a document.

use serde_json::Value;

use super::companions::{is_token, label, tolerated};
use super::repair::{FixedState, Repair};
use crate::{Blame, Failure, OwnedObject};
use gpuctl_manifest::render::Object;

/// The effect of applying one object.
#[derive(Clone, Debug)]
pub enum Effect {
    /// The object does not exist yet.
    Created,
    Unchanged,
    /// The values before and after the apply.
    Changed {
        live: Value,
        desired: Value,
    },
    /// Immutable fields differ. `desired` is the object that gpuctl would have applied.
    Immutable {
        live: Value,
        desired: Value,
    },
    /// The object is immutable and differs from its original content, which can be restored.
    Repaired(Box<Repair>),
    /// These fields have other values, owned by other field managers.
    Conflict(Vec<Blame>),
}

/// The effects of applying a document.
#[derive(Clone, Debug)]
pub struct Effects {
    pub objects: Vec<(Object, Effect)>,
    /// Objects of the job that the document does not declare any more.
    pub stale: Vec<OwnedObject>,
    /// Whether to overwrite fields of other managers.
    pub force: bool,
    /// Whether the document deletes the autoscaler, whose number of pods is then overwritten.
    pub(super) scaled: bool,
    /// Whether the document's YAML is the one that the job was submitted with.
    pub same_source: bool,
    /// Defaults newer than the job that are not applied until its YAML changes.
    pub waiting: Vec<&'static str>,
    pub warnings: Vec<String>,
    /// Immutable objects that differ from their original content, which cannot be restored.
    pub lost: Vec<String>,
}

impl Effects {
    /// Adds the effect on one object, or a warning if the effect is unknown.
    pub(super) fn add(
        &mut self,
        object: Object,
        judgement: Result<Judged, Failure>,
    ) -> Result<(), Failure> {
        let effect = match judgement {
            Ok(Judged::Effect(effect)) => {
                if is_token(&object) && matches!(effect, Effect::Created) {
                    self.warnings.push(format!(
                        "{} gets a new token; restart all ranks, because they have the old one",
                        label(&object)
                    ));
                }
                effect
            }
            Ok(Judged::Lost(message)) => {
                self.lost.push(message);
                Effect::Unchanged
            }
            // A bundle contains no Secrets.
            Err(Failure::NotInBundle(_)) if is_token(&object) => Effect::Unchanged,
            // The token could not be checked, but running pods already have it.
            Err(failure) if is_token(&object) && failure.is_forbidden() => {
                self.warnings
                    .push(format!("{} was not checked: {failure}", label(&object)));
                Effect::Unchanged
            }
            Err(failure) => {
                self.warnings.push(tolerated(&object, failure)?);
                Effect::Unchanged
            }
        };
        self.objects.push((object, effect));
        Ok(())
    }

    pub fn changes_nothing(&self) -> bool {
        self.stale.is_empty()
            && self
                .objects
                .iter()
                .all(|(_, effect)| matches!(effect, Effect::Unchanged))
    }

    /// Returns true if the objects only lack their owner reference, which the run that creates a
    /// job sets last.
    pub fn only_adopts(&self) -> bool {
        self.stale.is_empty()
            && !self.changes_nothing()
            && self.objects.iter().all(|(_, effect)| effect.only_adopts())
    }
}

impl Effect {
    /// Returns true if nothing but the owner reference changes.
    fn only_adopts(&self) -> bool {
        let without_owner = |object: &Value| {
            let mut object = object.clone();
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("ownerReferences");
            }
            object
        };
        match self {
            Self::Unchanged => true,
            Self::Changed { live, desired } => without_owner(live) == without_owner(desired),
            Self::Repaired(repair) => repair.only_adopts(),
            Self::Created | Self::Immutable { .. } | Self::Conflict(_) => false,
        }
    }
}

/// The result of checking one object.
pub(super) enum Judged {
    Effect(Effect),
    /// The object differs from its original content, which cannot be restored. Holds the message.
    Lost(String),
}

impl From<FixedState> for Judged {
    fn from(state: FixedState) -> Self {
        match state {
            FixedState::Missing => Self::Effect(Effect::Created),
            FixedState::Intact => Self::Effect(Effect::Unchanged),
            FixedState::Broken(repair) => Self::Effect(Effect::Repaired(repair)),
            FixedState::Lost(message) => Self::Lost(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_missing_owner_references_count_as_an_adoption() {
        let live = json!({"metadata": {"name": "a"}, "data": {"x": "1"}});
        let mut desired = live.clone();
        desired["metadata"]["ownerReferences"] = json!([{"uid": "1"}]);
        let changed = |desired: &Value| Effect::Changed {
            live: live.clone(),
            desired: desired.clone(),
        };
        assert!(changed(&desired).only_adopts() && Effect::Unchanged.only_adopts());
        desired["data"]["x"] = "2".into();
        assert!(!changed(&desired).only_adopts() && !Effect::Created.only_adopts());
    }
}
