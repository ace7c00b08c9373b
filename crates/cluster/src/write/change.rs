//! Computes the changes that applying a document again would make, from a dry run of each object:
//! nothing, a change in place, a conflict with another field manager, or a change to an immutable
//! field.

use futures::future::join_all;
use serde_json::Value;

use super::apply::Applied;
use super::changed_files::{keep_mark, with_mark};
use super::companions::{belongs, comparable, is_fixed as is_fixed_companion, label, with_content};
use super::effects::{Effect, Effects, Judged};
use super::keep_placement::keep_type;
use super::preflight::refuses_dry_runs;
use super::preserve::{Sameness, is_still_used, settled, site_defaults};
use super::repair::owner_repair;
use super::submit::owned;
use crate::{Blame, Failure, OwnedObject, handles::WritesApi};
use gpuctl_core::model::contract::labels::SOURCE;
use gpuctl_core::model::contract::refusal::RefusalCause;
use gpuctl_manifest::render::{Object, Rendered};

/// Parses the YAML that an owner was created from.
fn source(owner: &Value) -> Option<Value> {
    owner
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(SOURCE))
        .cloned()
}

/// Returns the objects to apply, with their owner last, and the defaults that are not applied until
/// the file changes.
fn applied(
    rendered: &Rendered,
    owner: &Value,
    sameness: Sameness,
) -> (Vec<Object>, Vec<&'static str>) {
    let root = rendered.objects.last().expect("a document has an owner");
    let mut objects: Vec<Object> = rendered
        .objects
        .iter()
        .filter(|object| !object.shared && object.kept)
        .cloned()
        .collect();
    objects.extend(owned(rendered, owner));
    if sameness.source {
        objects
            .iter_mut()
            .for_each(|object| keep_type(&mut object.body, "/metadata/labels", owner));
    }
    let (applied_root, waiting) = settled(root, owner, rendered, sameness);
    objects.retain(|object| is_still_used(object, owner, sameness.source));
    objects.push(applied_root);
    (objects, waiting)
}

/// An update that failed midway, with the objects written before the failure.
#[derive(Debug)]
pub struct PartialChange {
    pub failure: Failure,
    /// The object, as `kind/name`.
    pub object: String,
    pub written: Vec<String>,
}

impl WritesApi<'_> {
    /// Reads the live owner of the document's pods if it belongs to a gpuctl job of the same kind.
    pub async fn live_owner(self, rendered: &Rendered) -> Result<Option<Value>, Failure> {
        let root = rendered.objects.last().expect("a document has an owner");
        Ok(self.live(root).await?.filter(|live| belongs(root, live)))
    }

    /// Computes the effects of applying the objects over the live `owner`. With `renew`, the owner
    /// gets newer defaults. Newer defaults alone never cause a training to be submitted again.
    pub async fn effects(
        self,
        rendered: &Rendered,
        owner: &Value,
        force: bool,
        renew: bool,
    ) -> Result<Effects, Failure> {
        let root = rendered.objects.last().expect("a document has an owner");
        let same_source = source(owner) == source(&root.body);
        let keeps_defaults = !renew || root.kind() == "Job";
        let sameness = Sameness {
            source: same_source,
            defaults: keeps_defaults,
        };
        let (objects, waiting) = applied(rendered, owner, sameness);
        let stale = self.stale(root, &objects, owner).await?;
        // The job's autoscaler still sets the number of pods, but this change will delete it.
        let scaled = stale
            .iter()
            .any(|object| object.address().starts_with("horizontalpodautoscalers/"));
        // New site defaults alone must not change existing objects.
        let keep_existing =
            same_source && keeps_defaults && site_defaults(owner) != site_defaults(&root.body);
        let last = objects.len() - 1;
        let judgements = join_all(
            objects
                .iter()
                .enumerate()
                .map(|(index, object)| async move {
                    if is_fixed_companion(object) {
                        return self.fixed_state(object, owner).await.map(Judged::from);
                    }
                    self.effect_of_other(object, keep_existing && index < last, force, scaled)
                        .await
                        .map(Judged::Effect)
                }),
        )
        .await;
        let mut effects = Effects {
            stale,
            force,
            scaled,
            same_source,
            waiting,
            warnings: Vec::new(),
            lost: Vec::new(),
            objects: Vec::new(),
        };
        for (object, judgement) in objects.into_iter().zip(judgements) {
            effects.add(object, judgement)?;
        }
        Ok(effects)
    }

    /// Lists the objects of the job that are missing in `objects`.
    async fn stale(
        self,
        root: &Object,
        objects: &[Object],
        owner: &Value,
    ) -> Result<Vec<OwnedObject>, Failure> {
        let job = root.text("/metadata/labels/gpuctl~1job");
        let mut stale = self
            .0
            .jobs()
            .belongings(root.namespace().unwrap_or_default(), job)
            .await?;
        let rendered: Vec<String> = objects
            .iter()
            .map(|object| format!("{}/{}", object.plural, object.name()))
            .collect();
        let uid = owner
            .pointer("/metadata/uid")
            .and_then(Value::as_str)
            .unwrap_or_default();
        stale.retain(|object| {
            !object.kept && object.is_owned_by(uid) && !rendered.contains(&object.address())
        });
        Ok(stale)
    }

    /// Computes the effect of applying an object other than the owner. With `stays`, restores only
    /// its owner reference.
    async fn effect_of_other(
        self,
        object: &Object,
        keep_existing: bool,
        force: bool,
        scaled: bool,
    ) -> Result<Effect, Failure> {
        if keep_existing && let Some(live) = self.live(object).await? {
            return Ok(owner_repair(object, live).map_or(Effect::Unchanged, Effect::Repaired));
        }
        self.effect_of(object, force, scaled).await
    }

    /// Computes the effect of applying one object.
    pub async fn effect(self, object: &Object, force: bool) -> Result<Effect, Failure> {
        self.effect_of(object, force, false).await
    }

    /// Applies an object, overriding conflicts with gpuctl's own `scale` and `pause`, and with the
    /// replicas that a removed autoscaler set.
    async fn apply_over_ours(
        self,
        object: &Object,
        dry_run: bool,
        force: bool,
        scaled: bool,
    ) -> Result<Applied, Failure> {
        match self.apply_with(object, dry_run, force).await {
            Err(failure) if !force && is_of_ours(&failure, scaled) => {
                self.apply_with(object, dry_run, true).await
            }
            other => other,
        }
    }

    async fn effect_of(
        self,
        object: &Object,
        force: bool,
        scaled: bool,
    ) -> Result<Effect, Failure> {
        let Some(live) = self.live(object).await? else {
            return match self.apply_with(object, true, force).await {
                Err(failure) if !refuses_dry_runs(&failure) => Err(failure),
                _ => Ok(Effect::Created),
            };
        };
        let object = &keep_mark(object, &live);
        match self.apply_over_ours(object, true, force, scaled).await {
            Ok(applied) => {
                let (live, desired) = (comparable(&live), comparable(&applied.live));
                Ok(if live == desired {
                    Effect::Unchanged
                } else {
                    Effect::Changed { live, desired }
                })
            }
            // Only a conflict between field managers lists the fields as causes. A conflict between
            // resource versions lists none.
            Err(failure) if failure.reason() == "Conflict" && !failure.fields().is_empty() => {
                Ok(Effect::Conflict(foreign_conflicts(&failure, scaled)))
            }
            Err(failure) if is_fixed(&failure) => Ok(Effect::Immutable {
                live: comparable(&live),
                desired: object.body.clone(),
            }),
            Err(failure) => Err(failure),
        }
    }

    /// Writes the changes, the owner last. Returns the owner if it changed. Changes that precede a
    /// failure remain.
    pub async fn change(self, effects: &Effects) -> Result<Option<Value>, PartialChange> {
        let (mut written, mut owner) = (Vec::new(), None);
        for (object, effect) in &effects.objects {
            if matches!(effect, Effect::Unchanged | Effect::Immutable { .. }) {
                continue;
            }
            if let Effect::Repaired(repair) = effect {
                if let Err(failure) = self.repair(object, repair).await {
                    return Err(PartialChange {
                        failure,
                        object: label(object),
                        written,
                    });
                }
                written.push(label(object));
                continue;
            }
            let content = with_mark(with_content(object), effect);
            match self
                .apply_over_ours(&content, false, effects.force, effects.scaled)
                .await
            {
                Ok(applied)
                    if effects
                        .objects
                        .last()
                        .is_some_and(|(root, _)| root == object) =>
                {
                    owner = Some(applied.live);
                }
                Ok(_) => {}
                Err(failure) => {
                    return Err(PartialChange {
                        failure,
                        object: label(object),
                        written,
                    });
                }
            }
            written.push(label(object));
        }
        for stale in &effects.stale {
            if let Err(failure) = self.0.jobs().delete_belonging(stale).await {
                return Err(PartialChange {
                    failure,
                    object: stale.label(),
                    written,
                });
            }
            written.push(stale.label());
        }
        Ok(owner)
    }
}

/// Returns true if all conflicts are with gpuctl itself or a removed autoscaler.
fn is_of_ours(failure: &Failure, scaled: bool) -> bool {
    failure.reason() == "Conflict"
        && !failure.fields().is_empty()
        && foreign_conflicts(failure, scaled).is_empty()
}

/// Returns the conflicting fields that other managers own.
fn foreign_conflicts(failure: &Failure, scaled: bool) -> Vec<Blame> {
    // Server-side apply identifies managers by name and operation. gpuctl can conflict with itself,
    // because its merge patches are updates.
    let is_own = |blame: &Blame| blame.message.starts_with("conflict with \"gpuctl\"");
    let is_scaler = |blame: &Blame| {
        blame.field == ".spec.replicas"
            && blame
                .message
                .starts_with("conflict with \"kube-controller-manager\"")
    };
    failure
        .fields()
        .iter()
        .filter(|blame| !(is_own(blame) || scaled && is_scaler(blame)))
        .cloned()
        .collect()
}

/// Returns true if the server rejects the values because the live object can never take them.
fn is_fixed(failure: &Failure) -> bool {
    const WORDS: [&str; 4] = [
        "immutable",
        "is forbidden",
        "are forbidden",
        "can not be less than",
    ];
    let fixed = |text: &str| WORDS.iter().any(|word| text.contains(word));
    // Kueue's webhook reports this error for the queue of a running job.
    let message = failure.to_string();
    if RefusalCause::from_message(&message) == Some(RefusalCause::WebhookDenied)
        && message.contains("field is immutable")
    {
        return true;
    }
    // The API server answers 422 for invalid fields, with one cause per field.
    failure.code() == Some(422)
        && !failure.fields().is_empty()
        && failure.fields().iter().all(|blame| fixed(&blame.message))
}

#[cfg(test)]
mod tests;
