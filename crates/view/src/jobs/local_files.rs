//! Renders the local files that a job file sends to the cluster.

use super::copied::size;
use crate::format::text::clean;
use gpuctl_core::model::contract::submission::LocalFile;

pub fn lines(files: &[LocalFile]) -> Vec<String> {
    let line = |file: &LocalFile| {
        format!(
            "local file {} ({}) -> {}",
            clean(&file.path),
            size(file.bytes),
            clean(&file.destination)
        )
    };
    files.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_path_size_and_destination() {
        let file = LocalFile {
            path: "a\n.py".into(),
            bytes: 1536,
            destination: "/workspace/a.py".into(),
        };
        assert_eq!(
            lines(&[file]),
            ["local file a .py (1.5 KiB) -> /workspace/a.py"]
        );
    }
}
