//! Creates the objects of a document in order, and deletes them if one of them cannot be created.

use std::cell::RefCell;

use serde_json::{Value, json};

use super::apply::{Creation, Deletion, is_of};
use super::companions::{belongs, is_fixed, is_optional, label, tolerated};
use crate::{Failure, handles::WritesApi};
use gpuctl_manifest::render::{Object, Rendered};

/// Maximum number of attempts for an object that other runs write at the same time.
const MAX_RACES: usize = 10;

/// Objects that a submission has created so far. A caller that drops the submission must report or
/// delete them.
#[derive(Debug, Default)]
pub struct Progress {
    /// The created objects with their UIDs.
    created: Vec<(Object, String)>,
    /// The object whose creation is not confirmed yet, and whether it is the owner.
    unconfirmed: Option<(Object, bool)>,
    /// Whether to send no further objects.
    stopped: bool,
}

impl Progress {
    /// Stops the submission before its next object. The current request is not canceled.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Returns true while a request is waiting for its response.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        self.unconfirmed.is_some()
    }
}

/// Objects that remain after a failed submission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// The objects, as `kind/name`.
    pub existing: Vec<String>,
    /// An object that may exist, because the server did not respond.
    pub unconfirmed: Option<String>,
}

/// A submission that failed midway.
#[derive(Debug)]
pub struct PartialSubmission {
    pub failure: Failure,
    /// The object that failed, as `kind/name`.
    pub object: String,
    pub left: Leftovers,
    /// Whether another run created the job first and its job now uses the objects.
    pub taken: bool,
}

/// A document that was written.
#[derive(Debug)]
pub struct Submitted {
    /// The object that owns the pods.
    pub owner: Value,
    pub warnings: Vec<String>,
}

/// Returns the newest object that the run created.
fn newest(progress: &RefCell<Progress>) -> Option<(Object, String)> {
    progress.borrow().created.last().cloned()
}

/// Why a submission stopped.
enum WriteStop {
    Failed(Failure),
    Taken(Failure),
}

impl From<Failure> for WriteStop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl WritesApi<'_> {
    /// Writes the objects in order, the owner last, and marks them with `run`. Deletes them after a
    /// failure, unless `keep_partial` is set.
    pub async fn submit(
        self,
        rendered: &Rendered,
        run: &str,
        keep_partial: bool,
        progress: &RefCell<Progress>,
    ) -> Result<Submitted, PartialSubmission> {
        let mut omissions = Vec::new();
        for object in rendered.objects.iter().filter(|object| !object.shared) {
            let root = rendered.objects.last() == Some(object);
            match self.put(object, rendered, run, progress).await {
                // Preflight has already printed this warning.
                Err(WriteStop::Failed(failure))
                    if is_optional(object) && tolerated(object, failure.clone()).is_ok() =>
                {
                    progress.borrow_mut().unconfirmed = None;
                    omissions.push(label(object));
                }
                Ok(live) if root => {
                    let warnings = self.adopt(rendered, &live, &omissions).await;
                    progress.take();
                    return Ok(Submitted {
                        owner: live,
                        warnings,
                    });
                }
                Ok(_) => {}
                Err(WriteStop::Taken(failure)) => {
                    progress.take();
                    return Err(PartialSubmission {
                        failure,
                        object: label(object),
                        left: Leftovers::default(),
                        taken: true,
                    });
                }
                Err(WriteStop::Failed(failure)) => {
                    let leftovers = self.roll_back(run, keep_partial, progress).await;
                    return Err(PartialSubmission {
                        failure,
                        object: label(object),
                        left: leftovers,
                        taken: false,
                    });
                }
            }
        }
        unreachable!("the last object of a document is its owner")
    }

    /// Creates one object, or reuses a leftover of the same job.
    async fn put(
        self,
        object: &Object,
        rendered: &Rendered,
        run: &str,
        progress: &RefCell<Progress>,
    ) -> Result<Value, WriteStop> {
        for _ in 0..MAX_RACES {
            if let Some(live) = self.try_put(object, rendered, run, progress).await? {
                return Ok(live);
            }
        }
        let message = format!("other gpuctl commands keep changing {}", label(object));
        Err(Failure::conflict("Conflict", message).into())
    }

    /// Makes one attempt to create or reuse an object. Returns `None` if another run changed or
    /// deleted it in the meantime.
    async fn try_put(
        self,
        object: &Object,
        rendered: &Rendered,
        run: &str,
        progress: &RefCell<Progress>,
    ) -> Result<Option<Value>, WriteStop> {
        if progress.borrow().stopped {
            // The submission was stopped. The caller drops this future and then deletes the created
            // objects.
            return std::future::pending().await;
        }
        let root = rendered.objects.last() == Some(object);
        progress.borrow_mut().unconfirmed = Some((object.clone(), root));
        let created = self.create(object, run).await;
        // Keep the object in `unconfirmed` after an error, because an earlier attempt may have
        // created it.
        if created.is_ok() {
            progress.borrow_mut().unconfirmed = None;
        }
        if created.as_ref().is_err_and(is_race) {
            return Ok(None);
        }
        match created? {
            Creation::Created(live) => {
                let uid = live
                    .pointer("/metadata/uid")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned();
                progress.borrow_mut().created.push((object.clone(), uid));
                Ok(Some(live))
            }
            Creation::Existing(live) => {
                let is_own = belongs(object, &live);
                let message = format!("another gpuctl command created {} first", label(object));
                let failure = Failure::conflict("AlreadyExists", message);
                // Never reuse an object that is being deleted.
                let is_own = is_own && live.pointer("/metadata/deletionTimestamp").is_none();
                match (root, is_own) {
                    (true, true) => Err(WriteStop::Taken(failure)),
                    // Another run has created the job, so the object belongs to it.
                    (false, true) if self.live_owner(rendered).await?.is_some() => {
                        Err(WriteStop::Taken(failure))
                    }
                    (false, true) if is_fixed(object) => Ok(self.reuse(object, live).await?),
                    (false, true) => Ok(self.apply_over(object, &live).await?),
                    (_, false) => Err(WriteStop::Failed(failure)),
                }
            }
        }
    }

    /// Applies an object over a leftover, at the version that was read. Returns `None` if another
    /// run changed the leftover, because it may now belong to that run's job.
    async fn apply_over(self, object: &Object, leftover: &Value) -> Result<Option<Value>, Failure> {
        let mut object = object.clone();
        let version = leftover.pointer("/metadata/resourceVersion");
        object.body["metadata"]["resourceVersion"] = version.cloned().unwrap_or_default();
        match self.apply(&object, false).await {
            Err(failure) if is_race(&failure) => Ok(None),
            applied => Ok(Some(applied?.live)),
        }
    }

    /// Deletes the objects of this run, newest first, and returns those that remain. With
    /// `keep_partial`, deletes nothing.
    pub async fn roll_back(
        self,
        run: &str,
        keep_partial: bool,
        progress: &RefCell<Progress>,
    ) -> Leftovers {
        let unconfirmed = progress.borrow().unconfirmed.clone();
        let mut leftovers = Leftovers::default();
        if let Some((object, root)) = unconfirmed {
            let live = self.live_companion(&object).await;
            // Forget the object only after the read, so that an interrupted call can be repeated.
            progress.borrow_mut().unconfirmed = None;
            match live {
                // Another run was faster, and its job now uses the objects of this run.
                Ok(Some(live)) if root && !is_of(&live, run) && belongs(&object, &live) => {
                    progress.take();
                    return leftovers;
                }
                Ok(Some(live)) if is_of(&live, run) => {
                    let uid = live
                        .pointer("/metadata/uid")
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                        .to_owned();
                    progress.borrow_mut().created.push((object, uid));
                }
                Ok(_) => {}
                Err(_) => leftovers.unconfirmed = Some(label(&object)),
            }
        }
        // Remove an object from the list after its deletion, so that a repeated call continues
        // here.
        while let Some((object, uid)) = newest(progress) {
            if keep_partial
                || self
                    .delete(&object, Deletion::with_uid(&uid))
                    .await
                    .is_err()
            {
                leftovers.existing.push(label(&object));
            }
            progress.borrow_mut().created.pop();
        }
        leftovers
    }

    /// Makes the owner own the other objects, except kept claims, so that every way of deleting it
    /// deletes them too. The job exists even without this, so a failure is only a warning.
    async fn adopt(self, rendered: &Rendered, owner: &Value, omissions: &[String]) -> Vec<String> {
        let mut warnings = Vec::new();
        for object in owned(rendered, owner)
            .into_iter()
            .filter(|object| !omissions.contains(&label(object)))
        {
            let result = match is_fixed(&object) {
                true => self.adopt_fixed(&object).await,
                false => self.apply(&object, false).await.map(drop),
            };
            if let Err(failure) = result {
                let name = label(&object);
                warnings.push(format!("{name} has no owner reference to the job, so only `gpuctl delete` removes it: {failure}"));
            }
        }
        warnings
    }
}

/// Returns true if a request failed because another client wrote the object. A conflict between
/// field managers lists the fields.
fn is_race(failure: &Failure) -> bool {
    failure.reason() == "Conflict" && failure.fields().is_empty()
}

/// Returns the objects that the owner must own, with an owner reference.
pub(crate) fn owned(rendered: &Rendered, owner: &Value) -> Vec<Object> {
    let text = |pointer: &str| {
        owner
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    // With `blockOwnerDeletion: true`, the admission plugin OwnerReferencesPermissionEnforcement
    // requires permission to update the owner's finalizers.
    let reference = json!([{
        "apiVersion": text("/apiVersion"), "kind": text("/kind"), "name": text("/metadata/name"),
        "uid": text("/metadata/uid"), "blockOwnerDeletion": false,
    }]);
    let root = rendered.objects.last();
    let companions = rendered
        .objects
        .iter()
        .filter(|object| !object.shared && !object.kept && Some(*object) != root);
    let with_owner = |object: &Object| {
        let mut object = object.clone();
        object.body["metadata"]["ownerReferences"] = reference.clone();
        object
    };
    companions.map(with_owner).collect()
}
