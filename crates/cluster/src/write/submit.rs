//! Creates the objects of one document in order, and removes them again when one of them fails.

use std::cell::RefCell;

use serde_json::{Value, json};

use super::apply::{Creation, Deletion, is_of};
use super::companions::{belongs, is_fixed, is_optional, label, tolerated};
use crate::{Failure, handles::WritesApi};
use gpuctl_manifest::render::{Object, Rendered};

/// What a submission has made so far: whoever interrupts it has to say so, and to take it away.
#[derive(Debug, Default)]
pub struct Progress {
    /// With their UIDs.
    made: Vec<(Object, String)>,
    /// Sent, and not answered yet; true for the owner.
    doubtful: Option<(Object, bool)>,
    /// No further object may be sent.
    stopped: bool,
}

impl Progress {
    /// Prevents further objects from being sent. The request in flight keeps running.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Whether a request was sent and not yet answered.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        self.doubtful.is_some()
    }
}

/// What is there after a submission that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// As `kind/name`.
    pub there: Vec<String>,
    /// Nobody answers whether it is there.
    pub doubtful: Option<String>,
}

/// A submission that failed on the way.
#[derive(Debug)]
pub struct Broken {
    pub failure: Failure,
    /// The object that failed, as `kind/name`.
    pub object: String,
    pub left: Left,
    /// Somebody else made the job meanwhile: what had been made for it is that job's.
    pub taken: bool,
}

/// A document that is in the cluster.
#[derive(Debug)]
pub struct Submitted {
    /// The object that owns the pods.
    pub owner: Value,
    pub warnings: Vec<String>,
}

/// The newest object that a run made.
fn newest(progress: &RefCell<Progress>) -> Option<(Object, String)> {
    progress.borrow().made.last().cloned()
}

/// Why writing stopped.
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
    /// Writes the objects in order; the last owns the others. `run` marks what this run makes. What
    /// was made when it failed is taken away again, unless it is to be kept.
    pub async fn submit(
        self,
        rendered: &Rendered,
        run: &str,
        keep_partial: bool,
        progress: &RefCell<Progress>,
    ) -> Result<Submitted, Broken> {
        let mut left_out = Vec::new();
        for object in rendered.objects.iter().filter(|object| !object.shared) {
            let root = rendered.objects.last() == Some(object);
            match self.put(object, rendered, run, progress).await {
                // The checks before the first write have already printed the warning.
                Err(WriteStop::Failed(failure))
                    if is_optional(object) && tolerated(object, failure.clone()).is_ok() =>
                {
                    progress.borrow_mut().doubtful = None;
                    left_out.push(label(object));
                }
                Ok(live) if root => {
                    let warnings = self.adopt(rendered, &live, &left_out).await;
                    progress.take();
                    return Ok(Submitted {
                        owner: live,
                        warnings,
                    });
                }
                Ok(_) => {}
                Err(WriteStop::Taken(failure)) => {
                    progress.take();
                    return Err(Broken {
                        failure,
                        object: label(object),
                        left: Left::default(),
                        taken: true,
                    });
                }
                Err(WriteStop::Failed(failure)) => {
                    let left = self.take_back(run, keep_partial, progress).await;
                    return Err(Broken {
                        failure,
                        object: label(object),
                        left,
                        taken: false,
                    });
                }
            }
        }
        unreachable!("the last object of a document is its owner")
    }

    /// Creates one object. One that is there already is used if it is left over from this very job.
    async fn put(
        self,
        object: &Object,
        rendered: &Rendered,
        run: &str,
        progress: &RefCell<Progress>,
    ) -> Result<Value, WriteStop> {
        if progress.borrow().stopped {
            // The caller drops this future and then removes the objects that were made.
            return std::future::pending().await;
        }
        let root = rendered.objects.last() == Some(object);
        progress.borrow_mut().doubtful = Some((object.clone(), root));
        let created = self.create(object, run).await;
        // A first try may have been heard, whatever a second one was told.
        if created.is_ok() {
            progress.borrow_mut().doubtful = None;
        }
        match created? {
            Creation::Made(live) => {
                let uid = live
                    .pointer("/metadata/uid")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned();
                progress.borrow_mut().made.push((object.clone(), uid));
                Ok(live)
            }
            Creation::There(live) => {
                let ours = belongs(object, &live);
                let message = format!("{} was created by somebody else meanwhile", label(object));
                let failure = Failure::conflict("AlreadyExists", message);
                // What is going would be gone soon after it was used.
                let ours = ours && live.pointer("/metadata/deletionTimestamp").is_none();
                match (root, ours) {
                    (true, true) => Err(WriteStop::Taken(failure)),
                    // Another run may have made the job, whose companion this is then.
                    (false, true)
                        if is_fixed(object) && self.live_owner(rendered).await?.is_some() =>
                    {
                        Err(WriteStop::Taken(failure))
                    }
                    (false, true) if is_fixed(object) => Ok(self.reuse(object, live).await?),
                    (false, true) => Ok(self.apply(object, false).await?.live),
                    (_, false) => Err(WriteStop::Failed(failure)),
                }
            }
        }
    }

    /// Removes what this run made, newest first, or keeps it; says what is there then.
    pub async fn take_back(
        self,
        run: &str,
        keep_partial: bool,
        progress: &RefCell<Progress>,
    ) -> Left {
        let doubtful = progress.borrow_mut().doubtful.take();
        let mut left = Left::default();
        if let Some((object, root)) = doubtful {
            match self.live_companion(&object).await {
                // Another run was quicker: what was made for its job is that job's.
                Ok(Some(live)) if root && !is_of(&live, run) && belongs(&object, &live) => {
                    return left;
                }
                Ok(Some(live)) if is_of(&live, run) => {
                    let uid = live
                        .pointer("/metadata/uid")
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                        .to_owned();
                    progress.borrow_mut().made.push((object, uid));
                }
                Ok(_) => {}
                Err(_) => left.doubtful = Some(label(&object)),
            }
        }
        // An object leaves the list after its deletion, so that a second call continues here.
        while let Some((object, uid)) = newest(progress) {
            if keep_partial || self.delete(&object, Deletion::of(&uid)).await.is_err() {
                left.there.push(label(&object));
            }
            progress.borrow_mut().made.pop();
        }
        left
    }

    /// Makes the owner own the rest, so that its end, by whatever hand, leaves nothing. Kept claims
    /// stay their own. The job is there whether it succeeds or not, so a failure is a warning.
    async fn adopt(self, rendered: &Rendered, owner: &Value, left_out: &[String]) -> Vec<String> {
        let mut warnings = Vec::new();
        for object in owned(rendered, owner)
            .into_iter()
            .filter(|object| !left_out.contains(&label(object)))
        {
            let adopted = match is_fixed(&object) {
                true => self.adopt_fixed(&object).await,
                false => self.apply(&object, false).await.map(drop),
            };
            if let Err(failure) = adopted {
                let name = label(&object);
                warnings.push(format!("{name} was not tied to the job, so only `gpuctl delete` takes it away: {failure}"));
            }
        }
        warnings
    }
}

/// Returns what a job's owner owns, as it is written then.
pub(crate) fn owned(rendered: &Rendered, owner: &Value) -> Vec<Object> {
    let text = |pointer: &str| {
        owner
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let reference = json!([{
        "apiVersion": text("/apiVersion"), "kind": text("/kind"), "name": text("/metadata/name"),
        "uid": text("/metadata/uid"), "blockOwnerDeletion": false,
    }]);
    let root = rendered.objects.last();
    let others = rendered
        .objects
        .iter()
        .filter(|object| !object.shared && !object.kept && Some(*object) != root);
    let owned = |object: &Object| {
        let mut object = object.clone();
        object.body["metadata"]["ownerReferences"] = reference.clone();
        object
    };
    others.map(owned).collect()
}
