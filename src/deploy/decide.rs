//! Decides for every job of a run whether to create, change or replace it, or to leave it
//! unchanged. All decisions are made before the first write, and each includes a server-side dry
//! run.

use serde_json::Value;

use crate::deploy::comparison::render_again;
use crate::deploy::errors::obstacle_error;
use crate::deploy::existing_jobs::ExistingJobs;
use crate::deploy::feasibility::FeasibilityChecks;
use crate::deploy::merged_errors::{as_warning, merge_errors};
use crate::deploy::options::{Mode, SubmitOptions};
use crate::deploy::plan::{Plan, PlanningFacts};
use crate::deploy::pool_rules::{self, JobsOfPools};
use crate::deploy::reapply::{Action, ApplyOptions, reapply};
use gpuctl_cluster::{Connection, Failure, Obstacle, with_warnings};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_manifest::render::namespace;

pub(crate) struct Decision {
    pub plan: Plan,
    pub step: Action,
    /// The owner of the existing job, as the API server returned it.
    pub live: Value,
    /// Warnings that are reported before the document is written.
    pub warnings: Vec<String>,
}

/// Settings and facts that the decisions about documents depend on.
pub(crate) struct Decider<'r> {
    pub mode: Mode,
    pub facts: &'r PlanningFacts,
    pub connection: &'r Connection,
    pub dry_run: bool,
    /// Whether jobs that can never run here cause only a warning.
    pub allow_pending: bool,
    feasibility: FeasibilityChecks<'r>,
    jobs_of_pools: JobsOfPools,
}

impl<'r> Decider<'r> {
    pub(crate) fn new(
        options: &SubmitOptions,
        facts: &'r PlanningFacts,
        connection: &'r Connection,
    ) -> Self {
        let feasibility = FeasibilityChecks::new(connection);
        let (mode, dry_run, allow_pending) = (
            options.mode,
            options.dry_run.is_some(),
            options.allow_pending,
        );
        Self {
            mode,
            facts,
            connection,
            dry_run,
            allow_pending,
            feasibility,
            jobs_of_pools: JobsOfPools::default(),
        }
    }

    /// Records the objects of a document in the run, so that they count as existing for other
    /// documents.
    pub(crate) fn add_planned(&mut self, plan: &Plan) {
        self.feasibility.add(plan);
    }

    /// Decides about one document. `other_jobs` is the number of other jobs in this run that use
    /// the same pool.
    pub(crate) async fn decide(
        &self,
        plan: Plan,
        other_jobs: usize,
        existing_jobs: &ExistingJobs,
    ) -> Result<Decision, Error> {
        // `with_warnings` collects the `Warning` headers in the API server's responses.
        let (result, warnings) =
            with_warnings(self.decide_inner(plan, other_jobs, existing_jobs)).await;
        result.map(|mut result| {
            result.warnings.extend(warnings);
            result
        })
    }

    /// Decides like `decide`, but without the API server's warnings.
    async fn decide_inner(
        &self,
        mut plan: Plan,
        other_jobs: usize,
        existing_jobs: &ExistingJobs,
    ) -> Result<Decision, Error> {
        let connection = self.connection;
        let pools = self.facts.pools.as_deref();
        let mut warnings =
            pool_rules::check(connection, &plan, pools, other_jobs, &self.jobs_of_pools).await?;
        let space = &plan.target.namespace;
        // The API server rejects a dry run in a namespace that does not exist yet. Decide about
        // this document again after the namespace has been created.
        if self.facts.new_namespaces.contains(space)
            && connection.writes().live(&namespace(space)).await?.is_none()
        {
            if self.dry_run {
                warnings.push(format!(
                    "this command would create namespace `{space}`, so the API server could not \
                     check the objects in it"
                ));
            }
            return Ok(Decision {
                plan,
                step: Action::Later,
                live: Value::Null,
                warnings,
            });
        }
        let mut quota = None;
        let mut existing = self
            .reapply(&mut plan, existing_jobs, &mut warnings)
            .await?;
        // `apply` creates a missing job in the same way as `create`.
        if existing.is_none() {
            match preflight(&mut plan, existing_jobs, connection, self.dry_run).await {
                Ok((preflight_warnings, over_quota)) => {
                    warnings.extend(preflight_warnings);
                    quota = over_quota;
                    warnings.extend(class_warning(&plan, connection).await);
                }
                // Another run may have created the job in the meantime.
                Err(error) if self.mode.changes() && is_race(&error) => {
                    let jobs = ExistingJobs::read(connection, [&plan]).await;
                    existing = self.reapply(&mut plan, &jobs, &mut warnings).await?;
                    if existing.is_none() {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let exists = existing.is_some();
        let (step, live) = existing.unwrap_or((Action::Create, Value::Null));
        if !matches!(step, Action::Nothing) {
            // A replacement ends the running pods first, so check it like a new job.
            let changes_in_place = exists && !matches!(step, Action::Replace(_));
            self.check_feasibility(&mut plan, changes_in_place, quota, &mut warnings)
                .await?;
        }
        warnings.extend(plan.rendered.warnings.clone());
        Ok(Decision {
            plan,
            step,
            live,
            warnings,
        })
    }

    /// Decides what applying the document does to the existing job, and returns the job's live
    /// owner. Returns `None` if the job does not exist, or if `create` refuses existing jobs.
    async fn reapply(
        &self,
        plan: &mut Plan,
        existing_jobs: &ExistingJobs,
        warnings: &mut Vec<String>,
    ) -> Result<Option<(Action, Value)>, Error> {
        let Mode::Apply {
            force_conflicts,
            replace,
        } = self.mode
        else {
            return Ok(None);
        };
        let job = existing_jobs.get(plan)?.cloned();
        let options = ApplyOptions {
            force: force_conflicts,
            replace,
            dry_run: self.dry_run,
        };
        reapply(plan, job, options, warnings, self.connection).await
    }

    /// Fails if the job can never run here. For a change in place, this is only a warning, because
    /// the change may be an improvement. If the API server rejected a pod because of a quota, also
    /// reports the server's message, unless the limits of the quotas already explain the rejection.
    async fn check_feasibility(
        &self,
        plan: &mut Plan,
        changes_in_place: bool,
        quota: Option<Failure>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Error> {
        let findings = self.feasibility.check(plan).await;
        warnings.extend(findings.warnings);
        if let Some(failure) =
            quota.filter(|_| findings.errors.is_empty() && findings.now.is_none())
        {
            let message = failure.to_string();
            // Remove the beginning of the API server's message: `pods "x" is forbidden: exceeded
            // quota:`.
            let message = message
                .split_once("exceeded quota")
                .map_or(message.as_str(), |(_, rest)| {
                    rest.trim_start_matches(':').trim_start()
                });
            warnings.push(format!(
                "a quota does not currently allow its pods, so they will wait: {message}"
            ));
        }
        if changes_in_place || self.allow_pending {
            warnings.extend(findings.errors.iter().map(as_warning));
            return Ok(());
        }
        if let Some(error) = merge_errors(findings.errors) {
            return Err(error);
        }
        // Waiting for resources is normal, so this is a note and not a warning.
        plan.notes.extend(findings.now);
        Ok(())
    }
}

/// Returns true if an error shows that another run is writing the same job.
fn is_race(error: &Error) -> bool {
    error.name == ErrorName::AlreadyExists
        || error.name == ErrorName::reported(ErrorKind::Request, "Conflict")
}

/// Checks that no existing object conflicts, and that the API server accepts the objects and a pod.
async fn preflight(
    plan: &mut Plan,
    existing_jobs: &ExistingJobs,
    connection: &Connection,
    dry_run: bool,
) -> Result<(Vec<String>, Option<Failure>), Error> {
    let existing_job = match existing_jobs.get(plan) {
        // Without the right to read jobs, the server-side dry run still detects an existing job.
        Err(failure) if failure.is_forbidden() => None,
        result => result?,
    };
    match connection
        .writes()
        .preflight(&plan.rendered, existing_job, dry_run)
        .await
    {
        Err(Obstacle::NoPriorityClass) => {
            // The job can run without its priority class, so render it again without one.
            plan.target.without_priority = true;
            render_again(plan)?;
            let retried = connection
                .writes()
                .preflight(&plan.rendered, None, dry_run)
                .await;
            let (mut warnings, quota) = match retried {
                Err(Obstacle::PodQuota(failure)) => (Vec::new(), Some(failure)),
                result => (
                    result.map_err(|obstacle| obstacle_error(obstacle, plan))?,
                    None,
                ),
            };
            warnings.push(
                "`job.priority` has no effect: its priority class does not exist, and you \
                 may not create it"
                    .to_owned(),
            );
            Ok((warnings, quota))
        }
        Err(Obstacle::PodQuota(failure)) => Ok((Vec::new(), Some(failure))),
        result => Ok((
            result.map_err(|obstacle| obstacle_error(obstacle, plan))?,
            None,
        )),
    }
}

/// Warns if the job claims devices of a DeviceClass that does not exist. Its pods would never
/// start.
async fn class_warning(plan: &Plan, connection: &Connection) -> Option<String> {
    let claim = plan.rendered.choice.claim.as_ref()?;
    let exists = connection
        .devices()
        .has_device_class(&claim.api, &claim.class)
        .await;
    (!exists).then(|| {
        format!(
            "the nodes offer their GPUs through dynamic resource allocation, but DeviceClass \
             `{}` does not exist: pods will wait until an administrator creates it",
            claim.class
        )
    })
}
