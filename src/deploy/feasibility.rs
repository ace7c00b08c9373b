//! Checks whether a job can ever run, before it is written. The nodes must be able to hold its
//! pods, the quotas must allow them, and the claims, Secrets and ConfigMaps that it names must
//! exist. Also finds what is missing only now. `decide.rs` chooses between an error and a warning.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use futures::future::join3;
use tokio::sync::OnceCell;

use crate::deploy::capacity::{CapacityVerdict, Demand};
use crate::deploy::errors::quota_too_small;
use crate::deploy::once_per::OncePer;
use crate::deploy::plan::{Plan, job};
use crate::deploy::references::{check, object_key};
use gpuctl_cluster::{ClassFindings, Connection, Failure, requests};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::QuotaUse;
use gpuctl_core::model::counting::candidates::ClusterCapacity;
use gpuctl_core::model::values::quantity;
use gpuctl_manifest::render::pods_in_all;

/// Results of the checks before a job is written.
#[derive(Default)]
pub(super) struct FeasibilityFindings {
    /// Reasons why the job can never run.
    pub errors: Vec<Error>,
    /// Checks that could not be made, or whose result depends on an autoscaler.
    pub warnings: Vec<String>,
    /// Resources that are missing now, and the jobs that hold them.
    pub now: Option<String>,
}

/// Time limit for reading which jobs hold the GPUs. They are read once per run.
const FREE_RESOURCES_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks the documents of a run. Contains the facts that several documents need.
pub(super) struct FeasibilityChecks<'r> {
    connection: &'r Connection,
    /// Whether to check claims and their storage classes.
    includes_volumes: bool,
    /// Objects that the run will create.
    planned_objects: BTreeSet<String>,
    /// Free resources of the nodes, which are read on first use. The inner `None` means that the
    /// user is not allowed to list all pods.
    free_resources: OnceCell<Option<ClusterCapacity>>,
    /// Quotas by namespace, which are read for the first document of each namespace.
    quotas: OncePer<Result<Rc<[QuotaUse]>, Failure>>,
}

impl<'r> FeasibilityChecks<'r> {
    pub(super) fn new(connection: &'r Connection) -> Self {
        Self {
            connection,
            includes_volumes: true,
            planned_objects: BTreeSet::new(),
            free_resources: OnceCell::new(),
            quotas: OncePer::default(),
        }
    }

    /// Omits claims and storage classes, which `fit` reads and judges in more detail.
    pub(super) fn without_volumes(self) -> Self {
        Self {
            includes_volumes: false,
            ..self
        }
    }

    /// Adds the objects that a document in the run will create.
    pub(super) fn add(&mut self, plan: &Plan) {
        let name = |object: &gpuctl_manifest::render::Object| {
            object_key(object.plural, &plan.target.namespace, object.name())
        };
        self.planned_objects
            .extend(plan.rendered.objects.iter().map(name));
    }

    /// Checks everything that a new job needs.
    pub(super) async fn check(&self, plan: &Plan) -> FeasibilityFindings {
        let mut findings = FeasibilityFindings::default();
        let demand = Demand::new(plan);
        match demand.check_capacity() {
            CapacityVerdict::Possible => {}
            CapacityVerdict::Doubtful(warning) => findings.warnings.push(warning),
            CapacityVerdict::Impossible(error) => findings.errors.push(*error),
        }
        let namespace = plan.target.namespace.as_str();
        let quotas = async || {
            self.connection
                .quotas()
                .list(Some(namespace))
                .await
                .map(Rc::from)
        };
        let classes = async {
            match self.includes_volumes {
                true => {
                    self.connection
                        .storage()
                        .storage_classes(&plan.rendered)
                        .await
                }
                false => ClassFindings::default(),
            }
        };
        let (references, quotas, classes) = join3(
            check(
                plan,
                &self.planned_objects,
                self.includes_volumes,
                self.connection,
            ),
            self.quotas.get(namespace, quotas),
            classes,
        )
        .await;
        findings.errors.extend(plan.missing_queue.clone());
        findings.errors.extend(references.errors);
        findings.warnings.extend(references.warnings);
        let missing = classes.missing.into_iter().map(|class| {
            Error::new(
                ErrorName::reported(ErrorKind::NotFound, "StorageClassNotFound"),
                class.message,
            )
            .hint(
                "choose another `storageClass:` in `storage.workdirs`, or omit it if there \
                 is a default",
            )
        });
        findings.errors.extend(missing);
        findings.warnings.extend(classes.warnings);
        match quotas {
            Ok(quotas) => {
                let (never, now) = by_quota(plan, &quotas);
                findings.errors.extend(never.map(quota_too_small));
                findings.now = now;
            }
            Err(failure) if failure.is_forbidden() => {
                findings.warnings.push(
                    "the namespace quotas were not checked: you are not allowed to list resourcequotas"
                        .to_owned(),
                );
            }
            Err(failure) => findings
                .warnings
                .push(format!("the namespace quotas were not checked: {failure}")),
        }
        // Look for free GPUs only if nothing else prevents the job from starting.
        if findings.errors.is_empty()
            && findings.now.is_none()
            && demand.has_devices()
            && !plan.rendered.choice.candidates.is_empty()
        {
            self.check_free(&demand, plan, &mut findings).await;
        }
        findings
    }

    async fn check_free(
        &self,
        demand: &Demand<'_>,
        plan: &Plan,
        findings: &mut FeasibilityFindings,
    ) {
        let query = async {
            let answer = tokio::time::timeout(
                FREE_RESOURCES_TIMEOUT,
                self.connection
                    .inventory()
                    .capacity(plan.target.nodes.all()),
            )
            .await;
            answer.ok().and_then(Result::ok).flatten()
        };
        let Some(free_resources) = self.free_resources.get_or_init(|| query).await else {
            return;
        };
        match demand.missing_now(free_resources) {
            // A partly placed gang can block GPUs for a long time, so this is a warning.
            Some(line) if demand.is_gang() => findings.warnings.push(line),
            line => findings.now = line,
        }
    }
}

/// Compares the job with the quotas. Returns a limit that the job alone exceeds, and a limit that
/// it exceeds together with the current usage.
fn by_quota(plan: &Plan, quotas: &[QuotaUse]) -> (Option<String>, Option<String>) {
    let pods = job(&plan.input).map_or(1, |job| i128::from(pods_in_all(job)));
    let requests = requests(&plan.rendered.probe.body);
    let (mut never, mut now) = (None, None);
    // Only the API server can determine whether a scoped quota counts a pod.
    for quota in quotas.iter().filter(|quota| !quota.scoped) {
        for (key, limit) in &quota.hard {
            let requested = match key.as_str() {
                // Amounts are in thousandths, so the number of pods is, too.
                "pods" => pods * 1000,
                // The probe pod shows only the requests, so limits cannot be compared.
                "limits.cpu" | "limits.memory" => continue,
                key => requests
                    .get(key.strip_prefix("requests.").unwrap_or(key))
                    .map_or(0, |per_pod| per_pod * pods),
            };
            let (Some(limit_milli), true) = (quantity::milli(limit), requested > 0) else {
                continue;
            };
            let used = quota
                .used
                .get(key)
                .and_then(|used| quantity::milli(used))
                .unwrap_or(0);
            let requested_text = text(key, requested);
            if requested > limit_milli {
                never = never.or_else(|| {
                    Some(format!(
                        "quota `{}` allows at most {limit} of {key}, but the job needs {requested_text}",
                        quota.name
                    ))
                });
            } else if requested > limit_milli - used {
                let remaining = text(key, (limit_milli - used).max(0));
                now = now.or_else(|| {
                    Some(format!(
                        "quota `{}` has {remaining} of {limit} {key} left, but the job needs {requested_text}: \
                         it waits until other jobs finish (gpuctl get jobs -n {})",
                        quota.name, quota.namespace
                    ))
                });
            }
        }
    }
    (never, now)
}

fn text(key: &str, milli: i128) -> String {
    let units = u64::try_from(milli / 1000).unwrap_or(0);
    match key {
        key if key.ends_with("memory") || key.ends_with("storage") => quantity::binary(units),
        _ if milli % 1000 != 0 => format!("{milli}m"),
        _ => units.to_string(),
    }
}
