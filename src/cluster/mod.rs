//! The Kubernetes API: connect, read in slim pages, apply, delete, follow logs. Knows requests and answers; not what they
//! mean to a user.

mod apply;
mod belongings;
mod connect;
mod credentials;
mod decode;
mod events;
mod failure;
mod follow;
mod jobs;
mod logs;
mod nodes;
mod patience;
mod request;
mod retry;
mod submit;

pub use apply::{Applied, Deletion};
pub use belongings::Belonging;
pub use connect::{Access, Connection};
pub use failure::Failure;
pub use follow::{LogEvent, names_no_container};
pub use jobs::{Selection, Wanted};
pub use logs::{Follower, LogLine, LogQuery};
pub use nodes::FreeGpus;
pub use patience::Patience;
pub use submit::{Broken, Obstacle, label};
