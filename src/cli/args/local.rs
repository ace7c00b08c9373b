//! Options of commands that read job files with `files:`.

use std::path::PathBuf;

use clap::Args;

use crate::deploy::local_files::FileAccess;
use gpuctl_core::error::Error;

/// Local files of job files
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct LocalFileArgs {
    /// Also allow `files:` to refer to files in this folder, for example ../data, outside the job
    /// file's own folder; may be repeated
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub allow_files_from: Vec<PathBuf>,
}

impl LocalFileArgs {
    pub(crate) fn is_given(&self) -> bool {
        !self.allow_files_from.is_empty()
    }

    /// Opens the folders of `--allow-files-from`.
    pub(crate) fn access(&self) -> Result<FileAccess, Error> {
        FileAccess::from(&self.allow_files_from)
    }
}
