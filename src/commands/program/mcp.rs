//! `gpuctl mcp` serves agents over MCP, and `gpuctl skill` prints their instructions.

use std::process::ExitCode;

use crate::cli::inherited_options::InheritedOptions;
use crate::cli::program::mcp::{Mcp, Skill, WriteScope};
use crate::context::Context;
use crate::mcp::{KubeTarget, SKILL, WriteArea, serve};
use gpuctl_cluster::{Connection, ReadOnly};
use gpuctl_core::error::{Error, ErrorName};

pub(crate) async fn run(args: &Mcp, context: &Context) -> Result<ExitCode, Error> {
    if let Some(read_only) = context
        .read_only()
        .filter(|_| !args.allow_writes.is_empty())
    {
        return Err(contradiction_error(read_only));
    }
    // Without a note, the command seems to hang when it is started by hand.
    if context.terminal.stdin_is_terminal() {
        context
            .terminal
            .note("waiting for an agent on stdin; `gpuctl mcp --help` shows how to register it");
    }
    context.terminal.stream()?;
    let InheritedOptions {
        mut cluster,
        namespace,
    } = InheritedOptions::from_words(std::env::args_os().collect());
    let mut access = context.access.clone();
    if let Some(current) = context
        .current_context()
        .filter(|_| access.context.is_none())
    {
        // Fix the context at startup: the kubeconfig's current context can change between calls.
        cluster.push(format!("--context={current}").into());
        access.context = Some(current);
    }
    let token = access.overrides.token.clone();
    let target: KubeTarget = Box::new(move || Connection::place(&access));
    serve(cluster, namespace, token, args.allow_writes.iter().copied().map(area).collect(), target).await.map_err(|cause| {
        let error = Error::new(ErrorName::SessionFailed, "cannot start the session with the agent").cause(cause.to_string());
        error.hint("an agent starts this command and sends the first message; `gpuctl mcp --help` shows how to register it")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the error for `--allow-writes` in read-only mode.
fn contradiction_error(read_only: ReadOnly) -> Error {
    let error = || Error::usage("`--allow-writes` conflicts with read-only mode");
    match read_only {
        ReadOnly::Flag => error().hint("remove one"),
        ReadOnly::Environment => error()
            .cause(read_only)
            .hint("remove `--allow-writes`, or unset GPUCTL_READ_ONLY"),
        ReadOnly::File => error()
            .cause(read_only)
            .hint("remove `--allow-writes`, or change this setting with `gpuctl config set`"),
        ReadOnly::Unclear(reason) => {
            let error =
                Error::usage("cannot determine whether read-only mode allows `--allow-writes`")
                    .cause(reason);
            error.hint("`gpuctl config view` shows what is wrong")
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contradiction_names_its_cause() {
        let causes = |read_only| contradiction_error(read_only).causes;
        assert!(causes(ReadOnly::Flag).is_empty());
        assert_eq!(causes(ReadOnly::Environment), ["GPUCTL_READ_ONLY is set"]);
        assert_eq!(
            causes(ReadOnly::File),
            ["the config file sets `safety.read_only`"]
        );
        let unclear = contradiction_error(ReadOnly::Unclear("line 3 is not TOML".to_owned()));
        assert_eq!(unclear.causes, ["line 3 is not TOML"]);
        assert!(
            unclear.message.starts_with("cannot determine whether")
                && unclear.hints.iter().all(|hint| hint != "remove one")
        );
    }
}
