//! `create secret`: what a first job needs to reach a model hub or a private registry. Values come from the environment,
//! from files or from stdin, never from the command line, and go nowhere but into the Secret.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;

use crate::config::Environment;
use crate::error::{Error, Kind};
use crate::render::{MANAGED_BY, MANAGED_BY_US, Registry, opaque, registry};
use crate::view::document;
use crate::view::secret::{Written, text};

use super::{OneFormat, World, inputs, object_name};

/// Store tokens and registry logins in a Secret of the namespace, for jobs to use
///
/// With --from-env and --from-file a job reads the keys as `env: [{name: HF_TOKEN, secret: NAME}]`; with --registry it
/// pulls private images by `imagePullSecret: NAME`. No value is ever printed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl create secret hub --from-env HF_TOKEN --from-env WANDB_API_KEY
  gpuctl create secret pull --registry registry.example.com --username alice --password-stdin < token.txt")]
pub struct CreateSecret {
    /// Name of the secret
    #[arg(value_parser = object_name)]
    name: String,
    /// Key to set from the environment variable of that name, or KEY=VARIABLE; may be repeated
    #[arg(long, value_name = "VARIABLE", required_unless_present_any = ["from_file", "registry"])]
    from_env: Vec<String>,
    /// Key to set from a file, as PATH or KEY=PATH; may be repeated
    #[arg(long, value_name = "PATH")]
    from_file: Vec<String>,
    /// Log in to this image registry
    #[arg(long, value_name = "HOST", requires = "username", conflicts_with_all = ["from_env", "from_file"])]
    registry: Option<String>,
    /// User of the registry
    #[arg(long, value_name = "NAME", requires = "registry")]
    username: Option<String>,
    /// Read the registry's password from stdin
    #[arg(long, requires = "registry")]
    password_stdin: bool,
    /// Environment variable that holds the registry's password
    #[arg(long, value_name = "VARIABLE", requires = "registry", conflicts_with = "password_stdin")]
    password_env: Option<String>,
    /// Write over a secret that is there
    #[arg(long)]
    replace: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

pub async fn run(args: &CreateSecret, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let values = if args.registry.is_none() { values(args)? } else { BTreeMap::new() };
    let password = if args.registry.is_some() { password(args)? } else { String::new() };
    let connection = world.connect().await?;
    let namespace = connection.namespace.clone();
    let keys: Vec<String> = values.keys().cloned().collect();
    let (object, kind) = match (&args.registry, &args.username) {
        (Some(host), Some(username)) => {
            let login = Registry { host, username, password: &password };
            (registry(&namespace, &args.name, &login), "kubernetes.io/dockerconfigjson")
        }
        _ => (opaque(&namespace, &args.name, values), "Opaque"),
    };
    let live = connection.live(&object).await?;
    if let Some(live) = &live {
        let ours = live["metadata"]["labels"][MANAGED_BY] == MANAGED_BY_US;
        if !args.replace {
            let message = format!("secret `{}` exists already in namespace `{namespace}`", args.name);
            return Err(Error::new(Kind::Request, "AlreadyExists", message).hint("`--replace` writes over it"));
        }
        if !ours {
            let message = format!("secret `{}` in namespace `{namespace}` was not made by gpuctl", args.name);
            return Err(Error::new(Kind::Request, "NotOurs", message).hint("choose another name"));
        }
    }
    connection.apply(&object, false).await?;
    let keys = if args.registry.is_some() { vec![".dockerconfigjson".to_owned()] } else { keys };
    let written = Written { name: args.name.clone(), namespace, r#type: kind, keys, created: live.is_none() };
    world.terminal.print(&document(args.output.into(), &written).unwrap_or_else(|| text(&written)))?;
    world.terminal.hint(&match (&args.registry, written.keys.first()) {
        (None, Some(key)) => format!("environment.env: [{{name: {key}, secret: {}}}]", args.name),
        _ => format!("environment.imagePullSecret: {}", args.name),
    });
    Ok(ExitCode::SUCCESS)
}

fn values(args: &CreateSecret) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let mut values = BTreeMap::new();
    let mut put = |key: &str, value: Vec<u8>| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if key.is_empty() || key.len() > 253 || !key.chars().all(plain) {
            return Err(Error::usage(format!("`{key}` is no key of a secret")).hint("letters, digits, `-`, `_` and `.`"));
        }
        match values.insert(key.to_owned(), value) {
            Some(_) => Err(Error::usage(format!("the key `{key}` is given twice"))),
            None => Ok(()),
        }
    };
    for pair in &args.from_env {
        let (key, variable) = pair.split_once('=').unwrap_or((pair, pair));
        put(key, variable_value(variable)?.into_bytes())?;
    }
    for pair in &args.from_file {
        let own_name = || pair.rsplit('/').next().unwrap_or(pair).to_owned();
        let (key, path) = pair.split_once('=').map_or_else(|| (own_name(), pair.as_str()), |(key, path)| (key.to_owned(), path));
        // A path that is none may be a value that was given by mistake.
        let read = inputs::bytes(path).map_err(|error| {
            let told = Error::new(error.kind, &error.name, format!("the file for key `{key}` cannot be read"));
            told.hint("name the file that holds the value: `--from-file KEY=PATH`")
        });
        put(&key, read?)?;
    }
    Ok(values)
}

/// The value of a variable. A name that does not look like one may be a value that was given by mistake, and is not repeated.
fn variable_value(variable: &str) -> Result<String, Error> {
    let shouted = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let looks_like_one =
        variable.len() <= 40 && variable.starts_with(|c: char| c.is_ascii_uppercase()) && variable.chars().all(shouted);
    let value = Environment::variable(variable).filter(|value| !value.is_empty());
    value.ok_or_else(|| {
        if looks_like_one {
            let error = Error::usage(format!("the environment variable `{variable}` is not set"));
            return error.hint(format!("export {variable}=…, or read it from a file with `--from-file {variable}=PATH`"));
        }
        let error = Error::usage("an environment variable that is named is not set");
        error.hint("name the variable that holds the value, such as `--from-env HF_TOKEN`, not the value itself")
    })
}

fn password(args: &CreateSecret) -> Result<String, Error> {
    if let Some(variable) = &args.password_env {
        return variable_value(variable);
    }
    if !args.password_stdin {
        return Err(Error::usage("where the registry's password comes from is not said")
            .hint("`--password-stdin`, or `--password-env VARIABLE`"));
    }
    let text = String::from_utf8(inputs::bytes("-")?).map_err(|_| Error::usage("the password on stdin is not text"))?;
    let password = text.trim_end_matches(['\n', '\r']).to_owned();
    if password.is_empty() { Err(Error::usage("stdin has no password")) } else { Ok(password) }
}
