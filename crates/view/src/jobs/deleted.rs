//! Renders the result of `delete`.

pub use gpuctl_core::model::contract::deletion::Deleted;

pub fn text(deleted: &Deleted) -> String {
    let name = deleted
        .job_id
        .as_ref()
        .or(deleted.name.as_ref())
        .map_or("", String::as_str);
    let dry_run = super::scaled::dry_run_text(deleted.dry_run);
    format!("{name} {}{dry_run}: {}\n", deleted.status, deleted.message)
}
