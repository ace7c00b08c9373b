//! `gpuctl mcp` serves agents; `gpuctl skill` prints what they are told beforehand.

use std::process::ExitCode;

use crate::cli::carried::CarriedOptions;
use crate::cli::program::mcp::{Mcp, Skill, WriteScope};
use crate::cluster::Connection;
use crate::context::Context;
use crate::error::{Error, ErrorName};
use crate::mcp::{SKILL, Target, WriteArea, serve};

pub(crate) async fn run(args: &Mcp, context: &Context) -> Result<ExitCode, Error> {
    if !args.allow_writes.is_empty() && context.read_only().is_some() {
        return Err(Error::usage("`--allow-writes` contradicts the read-only mode").hint("omit one"));
    }
    if context.terminal.in_is_terminal() {
        context.terminal.note("waiting for an agent on stdin; `gpuctl mcp --help` shows how one is told of it");
    }
    context.terminal.stream()?;
    let CarriedOptions { mut cluster, namespace } = CarriedOptions::of(std::env::args_os().collect());
    let mut access = context.access.clone();
    if let Some(current) = context.current_context().filter(|_| access.context.is_none()) {
        // Each call reads the kubeconfig again, in which somebody can choose another context meanwhile.
        cluster.push(format!("--context={current}").into());
        access.context = Some(current);
    }
    let target: Target = Box::new(move || Connection::place(&access));
    serve(cluster, namespace, args.allow_writes.iter().copied().map(area).collect(), target).await.map_err(|cause| {
        let error = Error::new(ErrorName::SessionFailed, "no session with an agent came about").cause(cause);
        error.hint("an agent starts this command and speaks first; `gpuctl mcp --help` shows how it is told of it")
    })?;
    Ok(ExitCode::SUCCESS)
}

fn area(scope: WriteScope) -> WriteArea {
    match scope {
        WriteScope::Jobs => WriteArea::Jobs,
        WriteScope::Pools => WriteArea::Pools,
        WriteScope::Quotas => WriteArea::Quotas,
        WriteScope::Defaults => WriteArea::Defaults,
    }
}

pub(crate) async fn skill(_: &Skill, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.print(SKILL)?;
    Ok(ExitCode::SUCCESS)
}
