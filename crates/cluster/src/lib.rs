//! The Kubernetes API client: connects to a cluster, lists objects in small pages, applies and
//! deletes objects, and follows logs.
#![warn(unreachable_pub)]

mod discovery;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
mod handles;
mod inventory;
mod jobs;
mod queueing;
mod streams;
mod transport;
mod workloads;
mod write;

pub use discovery::defaults::StoredDefaults;
pub use discovery::exporter_pods::ExporterPod;
pub use discovery::home::HomeMark;
pub use discovery::namespace::Namespace;
pub use discovery::prometheus_service::{PrometheusService, ProxiedResponse};
pub use inventory::capacity::{PriorityValue, requests};
pub use inventory::labels::{LabelOverwrite, Labelling};
pub use inventory::pods_on_node::PodOnNode;
pub use inventory::pools::PoolNamespace;
pub use inventory::read::InventorySnapshot;
pub use jobs::foreign::OtherUse;
pub use jobs::list::{JobFilter, MAX_EXPLAINED, NAMES_AT_ONCE, Selection};
pub use jobs::owned_objects::{OwnedObject, PendingDeletion};
pub use jobs::storage::ClassFindings;
pub use jobs::subject::UnplacedPod;
pub use queueing::queues::ServedQueueing;
pub use queueing::quotas::QuotaPart;
pub use streams::attach::{ExecRequest, SessionEnd, SessionInput, SessionStream};
pub use streams::follow::{LogEvent, names_no_container};
pub use streams::follower::Follower;
pub use streams::forward::{Route, RouteEvent};
pub use streams::log_lines::{LogLine, MOST_BYTES as MOST_LOG_BYTES};
pub use streams::logs::LogQuery;
pub use transport::connect::{Access, Connection};
pub use transport::dry_run::DryRun;
pub use transport::error::read_only;
pub use transport::failure::{Blame, Failure, unless_forbidden};
pub use transport::kube_contexts::KubeContext;
pub use transport::outage_retry::OutageRetry;
pub use transport::overrides::{AccessToken, Overrides};
pub use transport::read_only::ReadOnly;
pub use transport::warnings::with_warnings;
pub use workloads::list::{OtherPods, Owners, OwnersAndInventory};
pub use write::apply::Deletion;
pub use write::change::PartialChange;
pub use write::companions::{label, policy_left_out};
pub use write::effects::{Effect, Effects};
pub use write::preflight::Obstacle;
pub use write::preserve::SITE_DEFAULTS_WAIT;
pub use write::submit::{Leftovers, PartialSubmission, Progress};
