//! `gpuctl options`: prints the options that all commands share.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::cli::help::options_page;
use crate::cli::program::options::Options;
use crate::context::Context;
use gpuctl_core::error::Error;

pub(crate) async fn run(_: &Options, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.print(&options_page(&Cli::command()))?;
    Ok(ExitCode::SUCCESS)
}
