//! Chooses the queue system (`job.queue`) that admits each job of a run, and the scheduler
//! (`job.gang`) that places its pods together, from those that the cluster serves. Detects missing
//! queues, for which `feasibility.rs` then refuses the job.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use gpuctl_cluster::{Connection, Failure, ServedQueueing};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::contract::rights::{Right, RightScope};
use gpuctl_core::model::{Gang, GangMode, JobKind, QueueSystem};
use gpuctl_manifest::spec::JobDocument;

/// Queue system and gang scheduler of a job.
#[derive(Default)]
pub(super) struct QueueChoice {
    pub system: Option<QueueSystem>,
    pub gang: Option<Gang>,
    /// Node labels that the queue uses to place pods near each other.
    pub levels: BTreeSet<String>,
    /// Error for a queue that does not exist.
    pub missing: Option<Error>,
    pub warnings: Vec<String>,
}

/// Names of the queues by system and namespace, or `None` if the user is not allowed to list them.
type QueueNames = BTreeMap<(QueueSystem, String), Option<BTreeSet<String>>>;

/// Queue systems and gang schedulers of the cluster, read once per run.
pub(super) struct Queueing<'c> {
    connection: &'c Connection,
    served: ServedQueueing,
    names: RefCell<QueueNames>,
}

impl<'c> Queueing<'c> {
    pub(super) async fn read(connection: &'c Connection) -> Result<Self, Failure> {
        Ok(Self {
            connection,
            served: connection.queues().served().await?,
            names: RefCell::default(),
        })
    }

    /// Returns true if the job names a queue or is a training on several nodes.
    pub(super) fn is_needed_for(job: &JobDocument) -> bool {
        job.queue.is_some() || is_gang(job) && job.training.gang != GangMode::None
    }

    /// Chooses the queue system and the gang scheduler for one job.
    pub(super) async fn choose(
        &self,
        job: &JobDocument,
        namespace: &str,
    ) -> Result<QueueChoice, Error> {
        let mut choice = QueueChoice::default();
        if let Some(queue) = &job.queue {
            self.find(queue, job.queue_system, namespace, &mut choice)
                .await?;
        }
        if is_gang(job) {
            choice.gang = self.gang(job, namespace, &mut choice).await?;
        }
        if let (Some(Gang::Kueue), Some(queue), Some(_)) =
            (&choice.gang, &job.queue, &job.training.topology)
        {
            let version = self
                .served
                .version_of(QueueSystem::Kueue)
                .unwrap_or_default();
            choice.levels = self
                .connection
                .queues()
                .topology_levels(version, namespace, queue)
                .await?;
        }
        Ok(choice)
    }

    /// Chooses the queue system that has the job's queue.
    async fn find(
        &self,
        queue: &str,
        requested: Option<QueueSystem>,
        namespace: &str,
        choice: &mut QueueChoice,
    ) -> Result<(), Error> {
        if let Some(requested) =
            requested.filter(|requested| self.served.version_of(*requested).is_none())
        {
            let message = format!(
                "`job.queue_system: {}` selects {}, which is not installed on this cluster",
                requested.word(),
                requested.name()
            );
            let error = Error::new(
                ErrorName::reported(ErrorKind::Specification, "QueueNotServed"),
                message,
            );
            return Err(error.hint("remove `job.queue_system`, or install the queueing system"));
        }
        let systems: Vec<QueueSystem> = self
            .served
            .systems()
            .filter(|system| requested.is_none_or(|requested| requested == *system))
            .collect();
        // Without any queue system, the renderer refuses the field.
        let Some(first) = systems.first().copied() else {
            return Ok(());
        };
        let (mut with_queue, mut unreadable, mut without_queue) =
            (Vec::new(), Vec::new(), Vec::new());
        for system in &systems {
            match self.names(*system, namespace).await? {
                None => unreadable.push(*system),
                Some(names) if names.contains(queue) => with_queue.push(*system),
                Some(names) => without_queue.push((*system, names)),
            }
        }
        // Prefer a system that has the queue over one whose queues the user is not allowed to list.
        choice.system = Some(
            with_queue
                .first()
                .or(unreadable.first())
                .copied()
                .unwrap_or(first),
        );
        match (with_queue.as_slice(), unreadable.as_slice()) {
            ([_], []) => {}
            ([matching], [another, ..]) => choice.warnings.push(format!(
                "assuming that queue `{queue}` belongs to {}, because you are not allowed to list {} \
                 queues; set `job.queue_system` to choose",
                matching.name(),
                another.name()
            )),
            ([matching, another, ..], _) => {
                return Err(ambiguous(queue, *matching, *another));
            }
            ([], [unreadable, ..]) => {
                choice.warnings.push(format!(
                    "could not check whether queue `{queue}` exists: you are not allowed to list {} queues",
                    unreadable.name()
                ));
            }
            ([], []) => choice.missing = Some(queue_not_found(queue, namespace, &without_queue)),
        }
        Ok(())
    }

    async fn names(
        &self,
        system: QueueSystem,
        namespace: &str,
    ) -> Result<Option<BTreeSet<String>>, Error> {
        let key = (
            system,
            // Kueue's LocalQueues are namespaced, but Volcano's queues are not.
            if system == QueueSystem::Kueue {
                namespace.to_owned()
            } else {
                String::new()
            },
        );
        if let Some(cached) = self.names.borrow().get(&key) {
            return Ok(cached.clone());
        }
        let version = self.served.version_of(system).unwrap_or_default();
        let names = match self
            .connection
            .queues()
            .names(system, version, namespace)
            .await
        {
            Ok(names) => Some(names),
            Err(failure) if failure.is_forbidden() => None,
            // The API group is served, but not its queues.
            Err(failure) if failure.is_not_found() => Some(BTreeSet::new()),
            Err(failure) => return Err(failure.into()),
        };
        self.names.borrow_mut().insert(key, names.clone());
        Ok(names)
    }

    /// Chooses the scheduler that places a training's pods together.
    async fn gang(
        &self,
        job: &JobDocument,
        namespace: &str,
        choice: &mut QueueChoice,
    ) -> Result<Option<Gang>, Error> {
        let queue_gang = choice.system.map(|system| match system {
            QueueSystem::Kueue => Gang::Kueue,
            QueueSystem::Volcano => Gang::Volcano,
        });
        Ok(match job.training.gang {
            // A Volcano queue only admits pod groups.
            GangMode::None => queue_gang.filter(|gang| *gang == Gang::Volcano),
            GangMode::Kueue => match queue_gang {
                Some(Gang::Kueue) => queue_gang,
                Some(_) => return Err(gang_conflict("kueue", QueueSystem::Volcano)),
                None => return Err(no_kueue_queue()),
            },
            GangMode::Volcano if queue_gang == Some(Gang::Kueue) => {
                return Err(gang_conflict("volcano", QueueSystem::Kueue));
            }
            GangMode::Native if queue_gang == Some(Gang::Volcano) => {
                return Err(gang_conflict("native", QueueSystem::Volcano));
            }
            GangMode::Volcano => match self.served.version_of(QueueSystem::Volcano) {
                Some(_) => Some(Gang::Volcano),
                None => return Err(gang_not_served("volcano")),
            },
            GangMode::Native if self.served.pod_groups.is_none() => {
                return Err(gang_not_served("native"));
            }
            GangMode::Native => self.native_gang(),
            GangMode::Auto if queue_gang.is_some() => queue_gang,
            GangMode::Auto if self.served.pod_groups.is_none() => None,
            // Without the right to create pod groups, the submission would fail, so `auto` does not
            // use them.
            GangMode::Auto => match self.may_create_pod_groups(namespace).await? {
                true => self.native_gang(),
                false => {
                    let message = "you are not allowed to create podgroups.scheduling.k8s.io, \
                                   so the pods are placed one by one";
                    choice.warnings.push(message.to_owned());
                    None
                }
            },
        })
    }

    fn native_gang(&self) -> Option<Gang> {
        self.served.pod_groups.clone().map(Gang::Native)
    }

    async fn may_create_pod_groups(&self, namespace: &str) -> Result<bool, Failure> {
        let right = |verb| Right {
            scope: RightScope::Namespace,
            group: "scheduling.k8s.io",
            resource: "podgroups",
            verb,
        };
        let rights = ["get", "create", "patch"].map(right);
        Ok(self
            .connection
            .discovery()
            .may(&rights.into(), Some(namespace))
            .await?
            .values()
            .all(|allowed| *allowed))
    }
}

fn queue_error(name: &'static str, message: String) -> Error {
    Error::new(ErrorName::reported(ErrorKind::Specification, name), message)
}

fn ambiguous(queue: &str, first: QueueSystem, second: QueueSystem) -> Error {
    let message = format!(
        "queue `{queue}` exists in both {} and {}",
        first.name(),
        second.name()
    );
    queue_error("QueueAmbiguous", message).hint(format!(
        "write `job.queue_system: {}` or `{}`",
        first.word(),
        second.word()
    ))
}

fn gang_not_served(requested: &str) -> Error {
    let message =
        format!("`job.gang: {requested}` needs a scheduler that this cluster does not have");
    queue_error("GangNotServed", message)
        .hint("remove `job.gang` to use the best available scheduler")
}

fn gang_conflict(requested: &str, system: QueueSystem) -> Error {
    let message = format!(
        "`job.gang: {requested}` cannot be combined with a {} queue",
        system.name()
    );
    queue_error("GangConflict", message).hint("remove `job.gang`")
}

fn no_kueue_queue() -> Error {
    let message = "`job.gang: kueue` needs a Kueue queue".to_owned();
    queue_error("GangConflict", message)
        .hint("set `job.queue`; `gpuctl get queues` lists the queues")
}

fn is_gang(job: &JobDocument) -> bool {
    job.kind == JobKind::Training && job.resources.node_count > 1
}

fn queue_not_found(
    queue: &str,
    namespace: &str,
    queues: &[(QueueSystem, BTreeSet<String>)],
) -> Error {
    let scope = match queues {
        [(QueueSystem::Volcano, _)] => String::new(),
        _ => format!(" in namespace `{namespace}`"),
    };
    let available: Vec<String> = queues
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(system, names)| {
            format!(
                "{} has {}",
                system.name(),
                names
                    .iter()
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        })
        .collect();
    let available = if available.is_empty() {
        "there are none".to_owned()
    } else {
        available.join("; ")
    };
    let error = Error::new(
        ErrorName::reported(ErrorKind::NotFound, "QueueNotFound"),
        format!("queue `{queue}` does not exist{scope}; {available}"),
    );
    error.hint("gpuctl get queues")
}
