//! gpuctl runs GPU jobs on Kubernetes from a short YAML file. The program has two data flows:
//!
//! ```text
//! submit:   file ─spec─▶ documents ─render─▶ objects ─deploy─▶ cluster ─view─▶ text
//! observe:  cluster, prometheus ─observe─▶ model ─stats─▶ figures ─view─▶ text
//! ```
//!
//! `ARCHITECTURE.md` lists which modules each module may use. The modules below are in reading
//! order.
#![warn(missing_docs, unreachable_pub)]

#[macro_use]
mod verbs;

mod cli;
mod commands;
mod concurrent;
mod config;
mod context;
#[cfg(test)]
mod cost;
mod deploy;
#[cfg(any(fuzzing, test))]
pub mod fuzz;
pub mod generated;
mod inside;
mod lookup;
mod mcp;
mod observe;
mod outbound;
mod selection;
mod serve;
mod show;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Command, CommandFactory, FromArgMatches};
use tracing_subscriber::filter::Targets;

use crate::cli::args::output_selection;
use crate::cli::plugin::{self, CalledAs};
use crate::cli::shorthand::{self, expand};
use crate::cli::{Cli, When, complete, help, misuse, next, search, tasks, topics};
use crate::config::Environment;
use crate::context::Context;
use crate::terminal::{ColorChoice, Terminal, TerminalOptions, Verbosity};
use gpuctl_cluster::{Access, ReadOnly};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_local::bundle::Bundle;
use gpuctl_local::platform;
use gpuctl_prometheus::Matchers;
use gpuctl_view::Format;
use gpuctl_view::format::text::{as_plugin, clean};

/// Minimum number of open files per process: six for the runtime, one or two for a connection and
/// one for a config file.
const MIN_OPEN_FILES: usize = 16;

/// Parses the command line, runs the verb, and reports the error if it fails.
pub fn run() -> ExitCode {
    // Shell completion scripts run the program with `COMPLETE` set and expect only candidates on
    // stdout.
    complete::answer();
    let words: Vec<OsString> = std::env::args_os().collect();
    let called_as = CalledAs::from_program(words.first());
    if called_as == CalledAs::Completion {
        return print_candidates(words);
    }
    if called_as == CalledAs::Program && shorthand::asks_for_version(&words) {
        // Scripts often query the version. Print it before building the command tree, which takes
        // most of the time.
        return print_page(cli::VERSION, &words);
    }
    let command = Cli::command();
    if let Some(page) = requested_page(&command, called_as, &words) {
        return print_page(&page, &words);
    }
    let words = expand(&command, words);
    let command = help::with_groups(command);
    let command = if called_as == CalledAs::Plugin {
        plugin::as_kubectl_plugin(command)
    } else {
        command
    };
    let parsed = command.try_get_matches_from(&words);
    let next = parsed.as_ref().ok().and_then(next::next_command);
    let selection = parsed.as_ref().ok().and_then(output_selection::selection);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return report_parse_error(&error, &words),
    };
    let bundle = match check_options(&cli) {
        Ok(bundle) => bundle,
        Err(error) => return report_usage_error(&error, &words),
    };
    match request_log(cli.global.verbose) {
        Ok(Some(filter)) => terminal::request_log::start(filter),
        Ok(None) => {}
        Err(error) => return report_usage_error(&error, &words),
    }
    let context = context(&cli, bundle);
    context.terminal.set_task(cli.command.task());
    if let Some((selection, headers)) = selection {
        context.terminal.select(selection, headers);
    }
    match execute(&cli, &context) {
        Ok(code) => {
            context.terminal.suggest(next);
            code
        }
        Err(error) => {
            context.terminal.fail(&error);
            ExitCode::from(error.kind.exit_code())
        }
    }
}

/// Prints the completion candidates when kubectl calls its plugin for completion.
fn print_candidates(words: Vec<OsString>) -> ExitCode {
    let terminal = Terminal::new(Environment::read().terminal_options());
    let command = complete::with_full_names(Cli::command());
    match terminal.print(&plugin::candidates(command, words)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Prints a page, such as the version or a help topic, instead of running a command.
fn print_page(page: &str, words: &[OsString]) -> ExitCode {
    match Terminal::new(Environment::read().terminal_options()).print(page) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_usage_error(&error, words),
    }
}

/// Returns the help page if the arguments name only a help topic, such as `gpuctl help manifest`.
fn requested_page(command: &Command, called_as: CalledAs, words: &[OsString]) -> Option<String> {
    let word = shorthand::topic(command, words)?;
    let page = topics::text(word)
        .or_else(|| tasks::page(word).map(ToOwned::to_owned))
        .or_else(|| search::unknown_command(command, &clean(word)))?;
    Some(if called_as == CalledAs::Plugin {
        as_plugin(&page)
    } else {
        page
    })
}

/// Validates global options that clap cannot validate, and reads the bundle given by `--replay`.
fn check_options(cli: &Cli) -> Result<Option<Arc<Bundle>>, Error> {
    if cli.global.all_namespaces && cli.global.namespace.is_some() {
        return Err(Error::usage("`-n` and `-A` cannot be used together").hint("remove one"));
    }
    if let Some(flag) = conflict_with_replay(cli) {
        let message = format!("`--replay` and `{flag}` cannot be used together");
        return Err(Error::usage(message).hint("remove one"));
    }
    if let Some(error) = cli
        .metrics
        .matchers
        .iter()
        .find_map(|text| text.parse::<Matchers>().err())
    {
        return Err(Error::usage(error).hint("--match cluster=prod"));
    }
    let bundle = cli.global.replay.as_deref().map(Bundle::read).transpose();
    let bundle = bundle
        .map_err(|error| Error::usage(error).hint("`gpuctl doctor --bundle FILE` writes one"))?;
    if !platform::may_open_files(MIN_OPEN_FILES) {
        let error = Error::new(
            ErrorName::RuntimeFailed,
            "the process may open too few files",
        );
        return Err(error.hint("`ulimit -n 1024` raises the limit for this shell"));
    }
    Ok(bundle.map(Arc::new))
}

/// Runs the command, then writes the output that was buffered for the pager.
fn execute(cli: &Cli, context: &Context) -> Result<ExitCode, Error> {
    // The futures of commands are not `Send`, so all of them run on this thread.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorName::RuntimeFailed, format!("cannot start: {error}")))?;
    let result = runtime.block_on(async {
        let running = async {
            let result = cli.command.run(context).await;
            context.terminal.clear_line();
            context.warn_of_omissions();
            result
        };
        // `biased` polls the command first, so the progress line is never redrawn after the command
        // has finished.
        tokio::select! {
            biased;
            result = running => result,
            never = context.terminal.show_waiting() => match never {},
        }
    });
    let _signals = runtime.enter();
    context.terminal.show_in_pager().and(result)
}

/// Returns the flag that conflicts with `--replay` because it selects a cluster or a Prometheus.
fn conflict_with_replay(cli: &Cli) -> Option<&'static str> {
    cli.global.replay.as_ref()?;
    let kubectl = &cli.global.kubectl;
    let flags = [
        ("--kubeconfig", cli.global.kubeconfig.is_some()),
        ("--context", cli.global.context.is_some()),
        ("--as", cli.global.impersonate.is_some()),
        ("--kube-user", kubectl.kube_user.is_some()),
        ("--api-server", kubectl.api_server.is_some()),
        ("--token", kubectl.token.is_some()),
        ("--prometheus", cli.metrics.prometheus.is_some()),
    ];
    flags
        .into_iter()
        .find(|(_, is_given)| *is_given)
        .map(|(flag, _)| flag)
}

/// Prints help and version to stdout. All other parse errors are usage errors.
fn report_parse_error(error: &clap::Error, words: &[OsString]) -> ExitCode {
    if !error.use_stderr() {
        return match error.print() {
            // A reader such as `head` may close the pipe early. This is not an error.
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => report_usage_error(
                &Error::new(
                    ErrorName::OutputFailed,
                    format!("cannot write to stdout: {error}"),
                ),
                words,
            ),
            _ => ExitCode::SUCCESS,
        };
    }
    if words.len() < 2 {
        // Without a command, print the help but exit with the code of a usage error.
        let _ = error.print();
        return ExitCode::from(ErrorKind::Usage.exit_code());
    }
    let arguments: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    report_usage_error(&misuse::explain(error, &arguments), words)
}

/// Reports a usage error in the requested output format. Searches the raw arguments for `-o`,
/// because clap has not parsed them.
fn report_usage_error(error: &Error, words: &[OsString]) -> ExitCode {
    let words: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let asks_for_document = |pair: &[String]| {
        matches!(pair[0].as_str(), "-o" | "--output") && matches!(pair[1].as_str(), "json" | "yaml")
    };
    // Spellings that join the option and its value in one argument, such as `-ojson`.
    let is_joined_option = |word: &String| {
        matches!(
            word.as_str(),
            "-ojson" | "-oyaml" | "-o=json" | "-o=yaml" | "--output=json" | "--output=yaml"
        )
    };
    let terminal = Terminal::new(TerminalOptions {
        is_plugin: is_plugin(),
        ..Environment::read().terminal_options()
    });
    if words.windows(2).any(asks_for_document) || words.iter().any(is_joined_option) {
        terminal.set_format(Format::Json);
    }
    terminal.fail(error);
    ExitCode::from(error.kind.exit_code())
}

/// Returns true if kubectl runs the program as a plugin.
fn is_plugin() -> bool {
    CalledAs::from_program(std::env::args_os().next().as_ref()) == CalledAs::Plugin
}

/// The filter of the request log: the value of `GPUCTL_LOG`, or the default with `-vv`.
fn request_log(verbose: u8) -> Result<Option<Targets>, Error> {
    match Environment::read().log {
        Some(text) => terminal::request_log::filter(&text).map(Some),
        None => Ok((verbose > 1).then(terminal::request_log::all)),
    }
}

/// Builds the command's context from the global options and the environment.
fn context(cli: &Cli, bundle: Option<Arc<Bundle>>) -> Context {
    let global = &cli.global;
    let environment = Environment::read();
    let mut options = environment.terminal_options();
    options.color = match global.color {
        When::Auto => ColorChoice::Auto,
        When::Always => ColorChoice::Always,
        When::Never => ColorChoice::Never,
    };
    options.plain |= global.plain;
    options.is_plugin = is_plugin();
    options.verbosity = match (global.quiet, global.verbose) {
        (true, _) => Verbosity::Errors,
        (_, 1..) => Verbosity::Details,
        _ => Verbosity::default(),
    };
    let terminal = Terminal::new(options);
    let access = Access {
        kubeconfig: global
            .kubeconfig
            .clone()
            // As in kubectl, `--kubeconfig` names one file, which replaces the list in
            // `$KUBECONFIG`.
            .map_or(environment.kubeconfig, |file| vec![file]),
        context: global.context.clone(),
        overrides: global.kubectl.overrides(environment.token),
        kuberc: environment.kuberc,
        namespace: global.namespace.clone(),
        default_namespace: None,
        impersonate: global.impersonate.clone(),
        impersonate_groups: global.impersonate_group.clone(),
        request_timeout: global.request_timeout,
        interactive: terminal.is_interactive(),
        read_only: global.read_only.then_some(ReadOnly::Flag),
        dry_run: None,
        bundle,
    };
    let mut context = Context::new(
        terminal,
        access,
        cli.metrics.flags(),
        cli.metrics.require_metrics,
    );
    context.all_namespaces = global.all_namespaces;
    if global.pager || environment.pager.is_some() {
        context
            .terminal
            .page_with(environment.pager.or(environment.common_pager));
    }
    context
        .terminal
        .set_namespace_given(global.namespace.is_some());
    context
}
