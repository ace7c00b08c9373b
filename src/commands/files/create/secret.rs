//! `gpuctl create secret`: stores tokens and registry passwords. Reads values from the environment,
//! files or stdin, but not from arguments, which other users of the machine can see.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::Value;

use crate::cli::files::create_secret::CreateSecret;
use crate::config::Environment;
use crate::context::Context;
use crate::deploy::inputs;
use gpuctl_cluster::DryRun;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::contract::labels::{MANAGED_BY, MANAGED_BY_US};
use gpuctl_manifest::render::{Registry, opaque, registry};
use gpuctl_view::document;
use gpuctl_view::jobs::secret::{Written, text};

pub(crate) async fn run(args: &CreateSecret, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let values = if args.registry.is_none() {
        values(args)?
    } else {
        BTreeMap::new()
    };
    let password = if args.registry.is_some() {
        password(args)?
    } else {
        String::new()
    };
    let connection = context.connect_with(args.dry_run).await?;
    let namespace = connection.namespace.clone();
    let keys: Vec<String> = values.keys().cloned().collect();
    let (object, kind) = match (&args.registry, &args.username) {
        (Some(host), Some(username)) => {
            let login = Registry {
                host,
                username,
                password: &password,
            };
            (
                registry(&namespace, &args.name, &login),
                "kubernetes.io/dockerconfigjson",
            )
        }
        _ => (opaque(&namespace, &args.name, values), "Opaque"),
    };
    let live = connection.writes().live(&object).await?;
    if let Some(live) = &live {
        check_replacement(args, live, &namespace)?;
    }
    // A client dry run sends a read instead of the write, which fails for a new secret.
    if args.dry_run != Some(DryRun::Client) {
        connection.writes().apply(&object, false).await?;
    }
    let keys = if args.registry.is_some() {
        vec![".dockerconfigjson".to_owned()]
    } else {
        keys
    };
    let written = Written {
        name: args.name.clone(),
        namespace,
        r#type: kind,
        keys,
        created: live.is_none(),
        dry_run: args.dry_run.map(DryRun::word),
    };
    context
        .terminal
        .print(&document(args.output.into(), &written).unwrap_or_else(|| text(&written)))?;
    context
        .terminal
        .hint(&match (&args.registry, written.keys.first()) {
            (None, Some(key)) => {
                format!("environment.env: [{{name: {key}, secret: {}}}]", args.name)
            }
            _ => format!("environment.imagePullSecret: {}", args.name),
        });
    Ok(ExitCode::SUCCESS)
}

/// Fails if a secret exists without `--replace`, or if gpuctl did not create it.
fn check_replacement(args: &CreateSecret, live: &Value, namespace: &str) -> Result<(), Error> {
    let name = &args.name;
    if !args.replace {
        let message = format!("secret `{name}` already exists in namespace `{namespace}`");
        return Err(
            Error::new(ErrorName::AlreadyExists, message).hint("use `--replace` to overwrite it")
        );
    }
    if live["metadata"]["labels"][MANAGED_BY] != MANAGED_BY_US {
        let message =
            format!("secret `{name}` in namespace `{namespace}` was not created by gpuctl");
        return Err(Error::new(ErrorName::NotOurs, message).hint("choose another name"));
    }
    Ok(())
}

fn values(args: &CreateSecret) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let mut values = BTreeMap::new();
    let mut insert = |key: &str, value: Vec<u8>| {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if key.is_empty() || key.len() > 253 || !key.chars().all(is_valid) {
            return Err(
                Error::usage(format!("`{key}` is not a valid key for a secret"))
                    .hint("use letters, digits, `-`, `_` and `.`"),
            );
        }
        match values.insert(key.to_owned(), value) {
            Some(_) => Err(Error::usage(format!("key `{key}` is specified twice"))),
            None => Ok(()),
        }
    };
    for pair in &args.from_env {
        let (key, variable) = pair.split_once('=').unwrap_or((pair, pair));
        insert(key, variable_value(variable)?.into_bytes())?;
    }
    for pair in &args.from_file {
        let file_name = || pair.rsplit('/').next().unwrap_or(pair).to_owned();
        let (key, path) = pair.split_once('=').map_or_else(
            || (file_name(), pair.as_str()),
            |(key, path)| (key.to_owned(), path),
        );
        // Do not print the path: it may be a secret value in the wrong position.
        let content = inputs::read_bytes(path).map_err(|error| {
            let error = Error::new(error.name, format!("cannot read the file for key `{key}`"));
            error.hint("specify the file that contains the value: `--from-file KEY=PATH`")
        });
        insert(&key, content?)?;
    }
    Ok(values)
}

/// Reads an environment variable. If an unset name is unusual, the error omits it, because it may
/// be a secret value in the wrong position.
fn variable_value(variable: &str) -> Result<String, Error> {
    let is_uppercase = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let looks_like_name = variable.len() <= 40
        && variable.starts_with(|c: char| c.is_ascii_uppercase())
        && variable.chars().all(is_uppercase);
    let value = Environment::variable(variable).filter(|value| !value.is_empty());
    value.ok_or_else(|| {
        if looks_like_name {
            let error = Error::usage(format!("environment variable `{variable}` is not set"));
            return error.hint(format!("export {variable}=…, or read it from a file with `--from-file {variable}=PATH`"));
        }
        let error = Error::usage("an environment variable is not set");
        error.hint("specify the variable that contains the value, such as `--from-env HF_TOKEN`, not the value itself")
    })
}

fn password(args: &CreateSecret) -> Result<String, Error> {
    if let Some(variable) = &args.password_env {
        return variable_value(variable);
    }
    if !args.password_stdin {
        return Err(Error::usage("no source is given for the registry password")
            .hint("use `--password-stdin` or `--password-env VARIABLE`"));
    }
    let text = String::from_utf8(inputs::read_bytes("-")?)
        .map_err(|_| Error::usage("the password on stdin is not valid UTF-8"))?;
    // `echo` and editors append a newline that is not part of the password.
    let password = text.trim_end_matches(['\n', '\r']).to_owned();
    if password.is_empty() {
        Err(Error::usage("stdin contains no password"))
    } else {
        Ok(password)
    }
}
