//! `config`: which setting has which value, who gave it, and how to change it in the file. Asks no cluster.

use std::cell::Cell;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use serde_json::Value;

use crate::config::{KEYS, Key, Kind as Wants, Origin, nearest, set, usual};
use crate::error::{Error, Kind};
use crate::view::config::{self as view, Setting};
use crate::view::document;

use super::{OneFormat, World, inputs};

/// Show or change settings
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    View(View),
    Set(Set),
}

/// Show every setting as it is now: flags over environment over file over default
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl config view
  gpuctl config view --show-origin
  gpuctl config view -o json --config monitor.yaml")]
pub struct View {
    /// Say who gave each value
    #[arg(long)]
    show_origin: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

/// Write a setting into the config file; its comments stay
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl config set prometheus.url http://prometheus.example.com:9090
  gpuctl config set thresholds.low_utilization 25
  pass show ai-key | gpuctl config set ai.api_key -")]
pub struct Set {
    /// Setting, such as prometheus.url
    #[arg(value_name = "KEY", add = ArgValueCandidates::new(keys))]
    key: String,
    /// Its value; - reads it from stdin, so that a secret is in no history
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    value: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

fn keys() -> Vec<CompletionCandidate> {
    KEYS.iter().map(|key| CompletionCandidate::new(key.name).help(Some(key.meaning.into()))).collect()
}

pub fn run(command: &ConfigCommand, world: &World) -> Result<ExitCode, Error> {
    match command {
        ConfigCommand::View(args) => view(args, world),
        ConfigCommand::Set(args) => write(args, world),
    }
}

fn view(args: &View, world: &World) -> Result<ExitCode, Error> {
    let format = args.output.into();
    world.terminal.set_format(format);
    let config = world.config()?;
    config.file.unknown().iter().for_each(|unknown| world.terminal.warn(unknown));
    let file = config.file.path().map(|path| path.display().to_string());
    // What is wrong is told, and does not hide the rest.
    let wrong = Cell::new(false);
    let setting = |key: &'static Key| {
        let (value, origin) = match world.flag(key.name) {
            Some(value) => (value, Origin::Flag),
            None => config.find(key).unwrap_or_else(|told| {
                world.terminal.warn(&told);
                wrong.set(true);
                (Value::Null, Origin::Default)
            }),
        };
        let origin = match origin {
            Origin::Flag => format!("flag {}", key.flag),
            Origin::Environment(variable) => format!("environment {variable}"),
            Origin::File => format!("file {}", file.as_deref().unwrap_or_default()),
            Origin::Default => "default".to_owned(),
        };
        // A variable holds what the file keeps in a file of its own.
        let secret = key.secret || (key.name.ends_with("_file") && origin.starts_with("environment"));
        Setting { name: key.name, value, origin, secret }
    };
    let settings: Vec<Setting> = KEYS.iter().map(setting).collect();
    let document = document(format, &view::nested(&settings, args.show_origin));
    let text = document.unwrap_or_else(|| match args.show_origin {
        true => view::table(&settings, format, world.terminal.look()),
        false => view::yaml(&settings),
    });
    world.terminal.print(&text)?;
    if file.is_none() {
        let place = usual().map_or_else(|| "in no config folder".to_owned(), |path| format!("at {}", path.display()));
        world.terminal.hint(&format!("there is no config file {place}: gpuctl config set KEY VALUE makes one"));
    }
    Ok(if wrong.get() { ExitCode::from(Kind::Usage.exit_code()) } else { ExitCode::SUCCESS })
}

fn write(args: &Set, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let Some(key) = Key::find(&args.key) else {
        let error = Error::usage(format!("`{}` is no setting", args.key));
        return Err(match nearest(&args.key, KEYS.iter().map(|key| key.name)) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint("gpuctl config view lists them"),
        });
    };
    if key.kind == Wants::Map {
        return Err(Error::usage(format!("`{}` holds several names and is written by hand", key.name)));
    }
    let typed = if args.value == "-" { stdin()? } else { args.value.clone() };
    // Nothing takes a setting back.
    let value = if typed.is_empty() { Some(Value::String(String::new())) } else { key.kind.parse(&typed) };
    let value = value.ok_or_else(|| {
        let shown = if key.secret { String::new() } else { format!("`{typed}` ") };
        Error::usage(format!("{shown}is not what `{}` wants: {}", key.name, key.kind.wants()))
    })?;
    let path = set(world.config_file(), key, &value).map_err(Error::usage)?;
    let (_, origin) = world.config()?.find(key).map_err(Error::usage)?;
    let setting = Setting { name: key.name, value, origin: format!("file {}", path.display()), secret: key.secret };
    let text = format!("{} set to {} in {}\n", key.name, setting.shown(), path.display());
    world.terminal.print(&document(args.output.into(), &view::one(&setting)).unwrap_or(text))?;
    if let Origin::Environment(variable) = origin {
        world.terminal.warn(&format!("{variable} in the environment comes before it"));
    }
    if key.secret
        && let [variable, ..] = key.variables
    {
        world.terminal.hint(&format!("{variable} in the environment keeps it out of files"));
    }
    Ok(ExitCode::SUCCESS)
}

fn stdin() -> Result<String, Error> {
    let text = String::from_utf8(inputs::bytes("-")?);
    Ok(text.map_err(|_| Error::usage("stdin is no text"))?.trim().to_owned())
}
