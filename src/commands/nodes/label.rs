//! `gpuctl label node`: sets or removes a label on nodes. A failure on one node does not affect the
//! others.

use std::process::ExitCode;

use crate::cli::nodes::label::LabelNode;
use crate::context::Context;
use crate::deploy::pools;
use crate::lookup;
use crate::show::reporter::TerminalReporter;
use gpuctl_cluster::{Connection, DryRun, LabelOverwrite, Labelling};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::contract::labels::POOL_LABEL;
use gpuctl_manifest::render::is_published;
use gpuctl_manifest::spec::{is_label_key, is_label_value};
use gpuctl_view::jobs::scaled::dry_run_text;
use gpuctl_view::nodes::labels;
use gpuctl_view::nodes::labels::Labelled;
use gpuctl_view::nodes::node_description::LabelItem;
use gpuctl_view::{Format, document};

pub(crate) async fn run(args: &LabelNode, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let (last, nodes) = args.words.split_last().expect("clap demands two words");
    let (key, value) = parse_label(last, args)?;
    for node in nodes {
        crate::cli::args::value::object_name(node).map_err(|reason| {
            Error::usage(format!("`{node}` is not a valid node name: {reason}"))
        })?;
    }
    let connection = context.connect_with(args.dry_run).await?;
    let dry_run = args.dry_run.map(DryRun::word);
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for node in nodes {
        match set_node_label(&connection, node, (key, value), args).await {
            Ok(message) => {
                if !format.is_document() {
                    context
                        .terminal
                        .print(&format!("{node}: {message}{}\n", dry_run_text(dry_run)))?;
                }
                if let ([_], true) = (nodes, format.is_document()) {
                    let answer = labelled(node, (key, value), message, dry_run);
                    context
                        .terminal
                        .print(&document(format, &answer).unwrap_or_default())?;
                }
                done.push(node.clone());
            }
            Err(error) if nodes.len() == 1 => return Err(error),
            Err(error) => {
                context.terminal.fail(&error);
                failed.push((node.clone(), error));
            }
        }
    }
    // Users without permission to list nodes read published copies of some labels.
    if is_published(key) && !done.is_empty() && !connection.is_dry_run() {
        let reporter = TerminalReporter::new(&context.terminal, format);
        pools::publish(&connection, false, &reporter).await;
    }
    if nodes.len() > 1 {
        let answer = labels::batch(None, &done, &failed, dry_run);
        context
            .terminal
            .print(&document(format, &answer).unwrap_or_default())?;
    }
    Ok(if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(ErrorKind::Request.exit_code())
    })
}

fn labelled<'a>(
    node: &'a str,
    (key, value): (&'a str, Option<&str>),
    message: String,
    dry_run: Option<&'static str>,
) -> Labelled<'a> {
    let label = value.map(|value| LabelItem {
        key: key.to_owned(),
        value: value.to_owned(),
    });
    Labelled {
        node_name: node,
        label_key: label.is_none().then_some(key),
        label,
        message,
        dry_run,
    }
}

/// Parses the label. Rejects an invalid key or value before anything is written.
fn parse_label<'a>(word: &'a str, args: &LabelNode) -> Result<(&'a str, Option<&'a str>), Error> {
    let (key, value) = word
        .split_once('=')
        .map_or((word, None), |(key, value)| (key, Some(value)));
    if args.delete == value.is_some() {
        let hint = if args.delete {
            format!("--delete accepts only the key: {key}")
        } else {
            match word.strip_suffix('-') {
                Some(key) => format!("`--delete {key}` removes the label"),
                None => format!("{word}=VALUE, or --delete"),
            }
        };
        return Err(Error::usage(format!(
            "`{word}` has {} value",
            if args.delete { "a" } else { "no" }
        ))
        .hint(hint));
    }
    let invalid = |message: String| {
        Error::new(ErrorName::InvalidLabel, message)
            .hint("use at most 63 letters, digits, `-`, `_` and `.`")
    };
    if !is_label_key(key) {
        return Err(invalid(format!("`{key}` is not a valid label key")));
    }
    if let Some(value) = value.filter(|value| !is_label_value(value)) {
        return Err(invalid(format!("`{value}` is not a valid label value")));
    }
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    // Kubernetes reserves these prefixes for its own components.
    let is_reserved = prefix.ends_with("kubernetes.io") || prefix.ends_with("k8s.io");
    if key == POOL_LABEL && !args.force {
        let error = Error::new(
            ErrorName::ProtectedLabel,
            format!("`{key}` is reserved for pools"),
        );
        return Err(error.hint(
            "use `gpuctl add node NODE --pool POOL`, `gpuctl remove node NODE --pool POOL` or \
             --force",
        ));
    }
    if is_reserved && !args.force {
        let error = Error::new(
            ErrorName::ProtectedLabel,
            format!("`{key}` is reserved for Kubernetes"),
        );
        return Err(error.hint("use `--force` to set it anyway"));
    }
    Ok((key, value))
}

async fn set_node_label(
    connection: &Connection,
    node: &str,
    (key, value): (&str, Option<&str>),
    args: &LabelNode,
) -> Result<String, Error> {
    let overwrite_mode = if args.overwrite || value.is_none() {
        LabelOverwrite::Anything
    } else {
        LabelOverwrite::Only(None)
    };
    match connection
        .nodes()
        .set_label(node, key, value, overwrite_mode)
        .await?
    {
        Labelling::Done => Ok(match (value, args.dry_run.is_some()) {
            (None, false) => format!("{key} removed"),
            (Some(value), false) => format!("{key}={value} set"),
            (None, true) => format!("{key} would be removed"),
            (Some(value), true) => format!("{key}={value} would be set"),
        }),
        Labelling::Unchanged => Ok(format!(
            "{key}={} was already set",
            value.unwrap_or_default()
        )),
        Labelling::NoNode => Err(lookup::missing_node(node, &[])),
        Labelling::NoLabel => Err(Error::new(
            ErrorName::LabelNotFound,
            format!("node `{node}` has no label `{key}`"),
        )),
        Labelling::Conflict(current) => {
            let current = current.unwrap_or_default();
            let error = Error::new(
                ErrorName::LabelConflict,
                format!("node `{node}` already has {key}={current}"),
            );
            Err(error.hint("use `--overwrite` to replace it"))
        }
    }
}
