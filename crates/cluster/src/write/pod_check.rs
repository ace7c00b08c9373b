//! Validates a pod of a job with the API server before the job is written.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::preflight::{Obstacle, not_judged, refuses_dry_runs};
use crate::{Failure, handles::WritesApi};
use gpuctl_core::model::contract::refusal::RefusalCause;
use gpuctl_manifest::render::{Object, Rendered};

/// Maximum time until the API server's admission plugin, which watches priority classes, knows a
/// new class.
const CLASS_WITHIN: Duration = Duration::from_secs(2);

#[derive(PartialEq, Eq)]
enum Shared {
    Exists,
    /// The user cannot read or create the class.
    Unknown,
    /// Only a dry run created the class, so it does not exist.
    DryRun,
}

impl WritesApi<'_> {
    /// Asks the API server to validate one of the document's pods, after creating the priority
    /// classes that the pod needs. Returns warnings.
    pub async fn judge_pod(
        self,
        rendered: &Rendered,
        dry_run: bool,
    ) -> Result<Vec<String>, Obstacle> {
        let (mut probe, mut class_exists) = (rendered.probe.clone(), false);
        for class in rendered.objects.iter().filter(|object| object.shared) {
            match self.ready_shared(class, dry_run).await? {
                Shared::Exists => class_exists = true,
                Shared::Unknown => {}
                // Drop the class from the pod, because it does not exist and the server would
                // reject the pod.
                Shared::DryRun => drop(
                    probe.body["spec"]
                        .as_object_mut()
                        .map(|spec| spec.remove("priorityClassName")),
                ),
            }
        }
        let mut warnings = self.missing_secrets(&probe).await;
        let end = Instant::now() + CLASS_WITHIN;
        let result = loop {
            match self.judge(&probe).await {
                Err(failure)
                    if class_exists
                        && failure.cause() == Some(RefusalCause::NoPriorityClass)
                        && Instant::now() < end =>
                {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                result => break result,
            }
        };
        match result {
            Ok(()) => Ok(warnings),
            Err(failure)
                if failure.cause() == Some(RefusalCause::NoPriorityClass) && !class_exists =>
            {
                Err(Obstacle::NoPriorityClass)
            }
            Err(failure) if failure.cause() == Some(RefusalCause::QuotaExceeded) => {
                Err(Obstacle::PodQuota(failure))
            }
            Err(failure) if refuses_dry_runs(&failure) => {
                warnings.push(not_judged(&probe, &failure));
                Ok(warnings)
            }
            Err(failure)
                if failure.is_forbidden()
                    && failure.cause() == Some(RefusalCause::NoRightToPods) =>
            {
                warnings.push(
                    "you are not allowed to create pods directly, so the pods were not validated"
                        .to_owned(),
                );
                Ok(warnings)
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Lists the image pull secrets that do not exist. Returns none if the user cannot read
    /// Secrets.
    async fn missing_secrets(self, pod: &Object) -> Vec<String> {
        let namespace = pod.namespace().unwrap_or_default();
        let references = pod
            .body
            .pointer("/spec/imagePullSecrets")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let mut missing = Vec::new();
        for name in references.filter_map(|secret| secret["name"].as_str()) {
            let collection = format!("/api/v1/namespaces/{namespace}/secrets");
            if let Ok(None) = self
                .0
                .find_in::<serde::de::IgnoredAny>(&collection, name)
                .await
            {
                missing.push(format!(
                    "secret `{name}` does not exist in namespace `{namespace}`; private images cannot be pulled without it"
                ));
            }
        }
        missing
    }

    async fn ready_shared(self, object: &Object, dry_run: bool) -> Result<Shared, Failure> {
        match self.live(object).await {
            Ok(Some(_)) => return Ok(Shared::Exists),
            Ok(None) => {}
            // The user cannot read the class but may be allowed to use it, as the validation of the
            // pod will show.
            Err(failure) if failure.is_forbidden() => return Ok(Shared::Unknown),
            Err(failure) => return Err(failure),
        }
        match self.apply(object, dry_run).await {
            Ok(_) if dry_run => Ok(Shared::DryRun),
            Ok(_) => Ok(Shared::Exists),
            Err(failure) if failure.is_forbidden() => Ok(Shared::Unknown),
            Err(failure) => Err(failure),
        }
    }
}
