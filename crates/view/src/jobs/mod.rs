//! Renders jobs and the results of commands that change jobs.

pub mod batch;
pub mod claims;
pub mod copied;
pub mod created;
pub mod deleted;
pub mod describe;
pub mod description;
pub mod events;
pub mod first_error;
pub mod fit;
mod fit_queue;
pub mod list;
pub mod local_files;
pub mod logs;
pub mod opened;
pub mod pods;
pub mod remaining;
pub mod scaled;
pub mod secret;
pub mod specification;
pub mod start;
mod startup;
pub mod waited;
pub mod why;
pub mod why_list;
