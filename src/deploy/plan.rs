//! Reads the facts that rendering depends on (nodes, pools, queues), and renders every job of a
//! run. Pools that the run creates count as existing.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join4;

use crate::deploy::defaults::{Site, keep_classes};
use crate::deploy::events::{DeployEvent, Reporter};
use crate::deploy::inputs::InputDocument;
use crate::deploy::merged_errors::merge_by_file;
use crate::deploy::once_per::OncePer;
use crate::deploy::queueing::{QueueChoice, Queueing};
use gpuctl_cluster::{Connection, Failure, policy_left_out};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::contract::labels::POOL_LABEL;
use gpuctl_core::model::facts::gpu::TYPE_LABELS;
use gpuctl_core::model::{GpuType, JobKind, Nodes, PoolDefinition, Status, Taint};
use gpuctl_manifest::render::{OtherPolicies, Rendered, Served, Target, policy_name, render};
use gpuctl_manifest::spec::{Document, JobDocument};

/// A document with its rendered objects.
pub(crate) struct Plan {
    pub input: InputDocument,
    pub target: Target,
    pub rendered: Rendered,
    /// Notes that are reported even if the job does not change.
    pub notes: Vec<String>,
    /// A warning about pods that keep old files, which also applies to an unchanged job.
    pub old_files: Option<String>,
    /// Error for a queue that does not exist.
    pub missing_queue: Option<Error>,
    /// Status of the existing job with this name.
    pub existing_status: Option<Status>,
}

impl Plan {
    /// Returns the name of the job, which its owner object also has.
    pub(crate) fn job_name(&self) -> &str {
        self.rendered
            .objects
            .last()
            .expect("a document has an owner")
            .name()
    }
}

/// Facts about the cluster that rendering needs.
#[derive(Default)]
pub(crate) struct PlanningFacts {
    nodes: Nodes,
    user: Option<String>,
    /// Defined pools, or `None` if the user is not allowed to read the definitions.
    pub pools: Option<Vec<PoolDefinition>>,
    /// Namespaces that quotas of this run create.
    pub new_namespaces: BTreeSet<String>,
    /// The site's defaults for all jobs.
    pub site: Site,
}

impl PlanningFacts {
    pub(crate) async fn read(connection: &Connection) -> Result<Self, Error> {
        let (nodes, user, pools, site) = join4(
            connection.nodes().list(),
            connection.discovery().user(),
            connection.pools().list(),
            Site::read(connection),
        )
        .await;
        let pools = match pools {
            Err(failure) if failure.is_forbidden() => None,
            other => Some(other?),
        };
        Ok(Self {
            nodes: nodes?,
            user: user?,
            pools,
            new_namespaces: BTreeSet::new(),
            site: site?,
        })
    }

    /// Adds the objects that the pools, quotas and defaults of this run will create.
    pub(crate) fn add_planned(&mut self, shared: &[InputDocument]) {
        for input in shared {
            match &input.document {
                Document::Pool(pool) => {
                    let name = &pool.name.value;
                    let labels: BTreeMap<&str, Option<GpuType>> = pool
                        .nodes
                        .iter()
                        .map(|node| (node.name.value.as_str(), node.gpu_type.clone()))
                        .collect();
                    if let Nodes::Listed(nodes) | Nodes::Published(nodes) = &mut self.nodes {
                        // Change the nodes as the pool will change them, because the run writes its
                        // pools before its jobs.
                        for node in nodes {
                            let Some(gpu_type) = labels.get(node.name.as_str()) else {
                                continue;
                            };
                            node.labels.insert(POOL_LABEL.to_owned(), name.clone());
                            node.taints.retain(|taint| taint.key != POOL_LABEL);
                            if pool.exclusive {
                                node.taints.push(Taint {
                                    key: POOL_LABEL.to_owned(),
                                    value: Some(name.clone()),
                                    effect: "NoSchedule".to_owned(),
                                });
                            }
                            node.labels.extend(
                                gpu_type.as_ref().map(|gpu_type| {
                                    (TYPE_LABELS[0].to_owned(), gpu_type.to_string())
                                }),
                            );
                        }
                    }
                    let definition = crate::deploy::pool_plan::definition(pool);
                    let pools = self.pools.get_or_insert_default();
                    // A pool of the file replaces the stored definition with the same name.
                    pools.retain(|stored| stored.name != *name);
                    pools.push(definition);
                }
                Document::Quota(quota) => self
                    .new_namespaces
                    .extend(quota.namespaces.iter().map(|(name, _)| name.clone())),
                Document::Defaults(site) => self.site = Site::Known(site.clone()),
                Document::Job(_) => {}
            }
        }
    }
}

pub(crate) fn job(input: &InputDocument) -> Option<&JobDocument> {
    if let Document::Job(job) = &input.document {
        Some(job)
    } else {
        None
    }
}

/// Reports every error except the last one, and returns that one.
pub(crate) fn report_all_but_last(reporter: &dyn Reporter, mut errors: Vec<Error>) -> Error {
    let last = errors.pop().expect("a failed reading has an error");
    errors
        .iter()
        .for_each(|error| reporter.report(DeployEvent::Failed(error)));
    last
}

/// Renders every document for this cluster. Reports all errors, not only the first one.
pub(crate) async fn plan(
    inputs: Vec<InputDocument>,
    connection: Option<&Connection>,
    facts: &PlanningFacts,
    reporter: &dyn Reporter,
) -> Result<Vec<Plan>, Error> {
    let (mut plans, mut errors) = (Vec::new(), Vec::new());
    for planned in plan_each(inputs, connection, facts, reporter).await? {
        match planned {
            Ok(plan) => plans.push(plan),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() {
        Ok(plans)
    } else {
        Err(report_all_but_last(reporter, merge_by_file(errors)))
    }
}

/// Renders every document for this cluster. Each result is a plan or the document's error. Fails if
/// the cluster cannot be read.
pub(crate) async fn plan_each(
    mut inputs: Vec<InputDocument>,
    connection: Option<&Connection>,
    facts: &PlanningFacts,
    reporter: &dyn Reporter,
) -> Result<Vec<Result<Plan, Error>>, Error> {
    facts.site.report(connection, reporter);
    let filled: Vec<Result<(), Error>> = inputs
        .iter_mut()
        .map(|input| facts.site.fill(input).map_or(Ok(()), Err))
        .collect();
    let (mut queueing, mut served) = (None, None);
    if let Some(connection) = connection {
        // These facts cost requests, so read them only if a document needs them.
        let any_job =
            |predicate: fn(&JobDocument) -> bool| inputs.iter().filter_map(job).any(predicate);
        if any_job(Queueing::is_needed_for) {
            queueing = Some(Queueing::read(connection).await?);
        }
        if any_job(needs_optional_apis) {
            served = Some(connection.services().served().await?);
        }
    }
    let planner = Planner {
        connection,
        facts,
        queueing,
        served,
        isolated: OncePer::default(),
    };
    let mut results = Vec::new();
    for (input, filled) in inputs.into_iter().zip(filled) {
        let planned = match filled {
            Ok(()) => planner.plan(input).await,
            Err(error) => Err(error),
        };
        match planned {
            // The same error would occur for all other documents.
            Err(error) if matches!(error.kind, ErrorKind::Unreachable | ErrorKind::Access) => {
                return Err(error);
            }
            planned => results.push(planned),
        }
    }
    Ok(results)
}

/// Plans documents for one cluster, one after another.
struct Planner<'c> {
    connection: Option<&'c Connection>,
    facts: &'c PlanningFacts,
    /// Queues and gang schedulers, or `None` if no document needs them.
    queueing: Option<Queueing<'c>>,
    /// Optional APIs, or `None` if no document needs them.
    served: Option<Served>,
    /// Whether a namespace has NetworkPolicies that gpuctl did not create, by namespace.
    isolated: OncePer<Result<bool, Failure>>,
}

impl Planner<'_> {
    async fn plan(&self, mut input: InputDocument) -> Result<Plan, Error> {
        let facts = self.facts;
        let namespace = namespace_of(&input.document, self.connection)?;
        if let (Some(connection), Document::Job(job)) = (self.connection, &mut input.document) {
            keep_classes(connection, &namespace, job).await?;
        }
        let choice = match (&self.queueing, &input.document) {
            (Some(queueing), Document::Job(job)) => queueing.choose(job, &namespace).await?,
            _ => QueueChoice::default(),
        };
        let (other_policies, policy_warning) =
            self.other_policies(&input.document, &namespace).await?;
        let target = Target {
            namespace,
            nodes: facts.nodes.clone(),
            user: facts.user.clone(),
            pools: facts
                .pools
                .iter()
                .flatten()
                .map(|pool| pool.name.clone())
                .collect(),
            files: input.attached.contents.clone(),
            queueing: choice.system,
            gang: choice.gang,
            kueue_levels: choice.levels,
            without_priority: false,
            served: self.served.clone(),
            other_policies,
        };
        let mut rendered = render(&input.document, &target)
            .map_err(|refusal| refusal.in_file(&input.file, &input.text))?;
        rendered
            .warnings
            .extend(crate::deploy::defaults::replaced(&input));
        rendered.warnings.extend(choice.warnings);
        rendered.warnings.extend(policy_warning);
        Ok(Plan {
            input,
            target,
            rendered,
            notes: Vec::new(),
            old_files: None,
            missing_queue: choice.missing,
            existing_status: None,
        })
    }

    /// Looks for NetworkPolicies that gpuctl did not create, if the job itself gets a policy.
    /// Returns a warning if the user is not allowed to list them.
    async fn other_policies(
        &self,
        document: &Document,
        namespace: &str,
    ) -> Result<(OtherPolicies, Option<String>), Error> {
        let name = if let Document::Job(job) = document {
            policy_name(job)
        } else {
            None
        };
        let (Some(connection), Some(name)) = (self.connection, name) else {
            return Ok((OtherPolicies::Absent, None));
        };
        match self
            .isolated
            .get(namespace, async || {
                connection
                    .namespaces()
                    .is_isolated_by_others(namespace)
                    .await
            })
            .await
        {
            Ok(true) => Ok((OtherPolicies::Present, None)),
            Ok(false) => Ok((OtherPolicies::Absent, None)),
            Err(failure) if failure.is_forbidden() => Ok((
                OtherPolicies::Hidden,
                Some(policy_left_out(&name, &failure)),
            )),
            Err(failure) => Err(failure.into()),
        }
    }
}

/// Renders a job without a cluster. Refuses only what every cluster would refuse.
pub(crate) fn render_without_cluster(input: &InputDocument) -> Result<(), Error> {
    let facts = PlanningFacts::default();
    let Document::Job(job) = &input.document else {
        return Ok(());
    };
    // Omit the queue, because it may exist in the cluster.
    let mut job_without_queue = job.clone();
    job_without_queue.queue = None;
    let target = Target {
        namespace: "default".to_owned(),
        nodes: facts.nodes,
        user: None,
        // Assume that the pool exists.
        pools: job_without_queue
            .resources
            .pool
            .iter()
            .map(|pool| pool.value.clone())
            .collect(),
        files: input.attached.contents.clone(),
        queueing: None,
        gang: None,
        kueue_levels: std::collections::BTreeSet::new(),
        without_priority: false,
        served: None,
        other_policies: OtherPolicies::Absent,
    };
    let rendered = render(&Document::Job(job_without_queue), &target);
    rendered
        .map(|_| ())
        .map_err(|refusal| refusal.in_file(&input.file, &input.text))
}

// LeaderWorkerSets, autoscalers and Ingresses depend on the APIs that the cluster serves.
fn needs_optional_apis(job: &JobDocument) -> bool {
    job.kind == JobKind::Inference && job.resources.node_count > 1
        || job
            .autoscaling
            .as_ref()
            .is_some_and(|autoscaling| autoscaling.enabled)
        || job
            .service
            .as_ref()
            .is_some_and(|service| service.host.is_some())
}

/// Returns `job.namespace`, the value of `-n`, or the namespace of the context, in this order.
/// Fails if `-n` contradicts the file.
pub(crate) fn namespace_of(
    document: &Document,
    connection: Option<&Connection>,
) -> Result<String, Error> {
    let in_file = match document {
        Document::Job(job) => job.namespace.as_ref().map(|space| space.value.clone()),
        _ => None,
    };
    let from_option = connection
        .filter(|connection| connection.namespace_is_explicit)
        .map(|connection| connection.namespace.clone());
    match (in_file, from_option) {
        (Some(in_file), Some(from_option)) if in_file != from_option => {
            let message = format!(
                "`{}` is for namespace `{in_file}`, but `-n {from_option}` was given",
                document.name()
            );
            Err(Error::new(ErrorName::NamespaceConflict, message)
                .hint("remove `-n`, or change `job.namespace`"))
        }
        (Some(namespace), _) | (None, Some(namespace)) => Ok(namespace),
        (None, None) => Ok(connection.map_or_else(
            || "default".to_owned(),
            |connection| connection.namespace.clone(),
        )),
    }
}
