//! The Kubernetes API: connect, read in slim pages, apply, delete, follow logs. Knows requests and answers; not what they
//! mean to a user.

mod apply;
mod attach;
mod belongings;
mod connect;
mod credentials;
mod decode;
mod events;
mod failure;
mod follow;
mod forward;
mod inventory;
mod jobs;
mod labels;
mod logs;
mod nodes;
mod owner;
mod patience;
mod pools;
mod queue;
mod quotas;
mod request;
mod requests;
mod retry;
mod rights;
mod service;
mod size;
mod socket;
mod storage;
mod submit;

pub use apply::{Applied, Deletion};
pub use attach::{Call, Ending, Input, Output, Session};
pub use belongings::{Belonging, Remainder};
pub use connect::{Access, Connection};
pub use failure::Failure;
pub use follow::{LogEvent, names_no_container};
pub use forward::{Route, RouteEvent};
pub use inventory::Stock;
pub use jobs::{Selection, Wanted};
pub use labels::Labelling;
pub use logs::{Follower, LogLine, LogQuery};
pub use nodes::FreeGpus;
pub use owner::Owner;
pub use patience::Patience;
pub use pools::{Home, Known};
pub use submit::{Broken, Obstacle, label};
