//! Warns about gpuctl's folders that other users can change.

use super::outbound::state_folder;
use gpuctl_local::files::trust;

/// Builds a warning for each state or cache folder that gpuctl ignores because other users can
/// change its contents.
pub(crate) fn folder_warnings() -> Vec<String> {
    let cache = dirs::cache_dir().map(|folder| folder.join("gpuctl"));
    let folders = [cache, state_folder()].into_iter().flatten();
    let foreign =
        folders.filter(|folder| folder.symlink_metadata().is_ok() && !trust::is_closed(folder));
    foreign
        .map(|folder| {
            format!(
                "ignoring {}: another user owns it or can write to it",
                folder.display()
            )
        })
        .collect()
}
