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
    /// Refuse `files:`; the tools of `gpuctl mcp` use it
    #[arg(long, hide = true)]
    pub no_local_files: bool,
}

impl LocalFileArgs {
    pub(crate) fn is_given(&self) -> bool {
        !self.allow_files_from.is_empty()
    }

    /// Opens the folders of `--allow-files-from`.
    pub(crate) fn access(&self) -> Result<FileAccess, Error> {
        match self.no_local_files {
            true => Ok(FileAccess::Refused),
            false => FileAccess::from(&self.allow_files_from),
        }
    }
}
