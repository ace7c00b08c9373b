//! `gpuctl config`: prints settings with their values and origins, and changes the config file.

use std::cell::Cell;
use std::process::ExitCode;

use serde_json::Value;

use crate::cli::program::config::{GetSetting, Set, UnsetSetting, View};
use crate::config::{
    self, Config, KEYS, Origin, SettingKey, SettingPath, ValueKind as SessionOptions, default_path,
    nearest, set,
};
use crate::context::Context;
use crate::deploy::inputs;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorKind};
use gpuctl_view::document;
use gpuctl_view::program::config as view;
use gpuctl_view::program::config::Setting;

pub(crate) async fn view(args: &View, context: &Context) -> Result<ExitCode, Error> {
    let format = args.output.into();
    context.terminal.set_format(format);
    let config = context.config()?;
    config
        .file
        .unknown()
        .iter()
        .for_each(|unknown| context.terminal.warn(unknown));
    // Warn about an invalid setting and print the others.
    let has_error = Cell::new(false);
    let settings = KEYS.iter().map(|key| {
        let path = SettingPath { key, context: None };
        setting(&path, &config, context).unwrap_or_else(|error| {
            context.terminal.warn(&error.to_string());
            has_error.set(true);
            Setting {
                name: key.name.to_owned(),
                value: Value::Null,
                origin: "default".to_owned(),
                secret: key.secret,
            }
        })
    });
    let settings: Vec<Setting> = settings.collect();
    let document = document(format, &view::nested(&settings, args.show_origin));
    let text = document.unwrap_or_else(|| match args.show_origin {
        true => view::table(&settings, format, context.terminal.style()),
        false => view::yaml(&settings),
    });
    context.terminal.print(&text)?;
    if config.file.path().is_none() {
        let location = default_path().map_or_else(
            || "(no config folder found)".to_owned(),
            |path| format!("at {}", path.display()),
        );
        context.terminal.hint(&format!(
            "no config file exists {location}: gpuctl config set KEY VALUE creates one"
        ));
    }
    Ok(if has_error.get() {
        ExitCode::from(ErrorKind::Usage.exit_code())
    } else {
        ExitCode::SUCCESS
    })
}

/// Looks up the value and the origin of a setting. Fails if the value is invalid.
fn setting(path: &SettingPath, config: &Config, context: &Context) -> anyhow::Result<Setting> {
    let key = path.key;
    let (value, origin) = match (&path.context, context.flag(key.name)) {
        // The setting of a context is what the file contains, even for the current context.
        (Some(_), _) => match config.file.value_at(path)? {
            Some(value) => (value, Origin::File),
            None => (Value::Null, Origin::Default),
        },
        (None, Some(value)) => (value, Origin::Flag),
        (None, None) => config.find(key)?,
    };
    let origin = match origin {
        Origin::Flag => format!("flag {}", key.flag),
        Origin::Environment(variable) => format!("environment {variable}"),
        Origin::File => {
            let path = config.file.path().map(|path| path.display().to_string());
            format!("file {}", path.unwrap_or_default())
        }
        Origin::Default => "default".to_owned(),
    };
    // The environment variable of a `*_file` key holds the secret itself instead of a path.
    let secret = key.secret || (key.name.ends_with("_file") && origin.starts_with("environment"));
    Ok(Setting {
        name: path.name(),
        value,
        origin,
        secret,
    })
}

fn find_path(name: &str) -> Result<SettingPath, Error> {
    SettingPath::find(name).ok_or_else(|| {
        if name.chars().any(char::is_control) {
            return Error::usage("the name of a setting must not contain control characters");
        }
        let error = Error::usage(format!("`{name}` is not a setting"));
        match nearest(name, KEYS.iter().map(|key| key.name)) {
            Some(suggestion) => error.hint(format!("did you mean `{suggestion}`?")),
            None if name.starts_with("contexts.") => error.hint(
                "use contexts.NAME.SECTION.KEY with a section `cluster`, `prometheus` or `safety`",
            ),
            None => error.hint("`gpuctl config view` lists all settings"),
        }
    })
}

/// Warns about a setting of a context that the kubeconfig does not have.
fn warn_of_unknown_context(path: &SettingPath, context: &Context) {
    let names = Connection::contexts(&context.access).map(|(names, _)| names);
    if let (Some(name), Ok(names)) = (&path.context, names)
        && !names.contains(name)
    {
        context
            .terminal
            .warn(&format!("the kubeconfig has no context `{name}`"));
    }
}

pub(crate) async fn get(args: &GetSetting, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let path = find_path(&args.key)?;
    let setting = setting(&path, &context.config()?, context).map_err(Error::usage)?;
    let text = match setting.value {
        Value::Null => "\n".to_owned(),
        _ => format!("{}\n", setting.shown()),
    };
    context
        .terminal
        .print(&document(args.output.into(), &view::one(&setting)).unwrap_or(text))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn unset(args: &UnsetSetting, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let place = find_path(&args.key)?;
    let (path, was_set) = config::unset(context.config_file(), &place).map_err(Error::usage)?;
    let setting = setting(&place, &context.config()?, context).map_err(Error::usage)?;
    let action = if was_set {
        "removed from"
    } else {
        "was not in"
    };
    let value = match setting.value {
        Value::Null => "no value".to_owned(),
        _ => format!("{} ({})", setting.shown(), setting.origin),
    };
    let text = format!(
        "{} {action} {}: now {value}\n",
        setting.name,
        path.display()
    );
    context
        .terminal
        .print(&document(args.output.into(), &view::one(&setting)).unwrap_or(text))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn write(args: &Set, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let place = find_path(&args.key)?;
    let key = place.key;
    if key.kind == SessionOptions::Map {
        return Err(Error::usage(format!(
            "`{}` is a map; edit the file by hand",
            place.name()
        )));
    }
    let value = parse_value(key, &args.value)?;
    let path = set(context.config_file(), &place, &value).map_err(Error::usage)?;
    let (_, origin) = context.config()?.find(key).map_err(Error::usage)?;
    warn_of_unknown_context(&place, context);
    let setting = Setting {
        name: place.name(),
        value,
        origin: format!("file {}", path.display()),
        secret: key.secret,
    };
    let text = format!(
        "{} set to {} in {}\n",
        setting.name,
        setting.shown(),
        path.display()
    );
    context
        .terminal
        .print(&document(args.output.into(), &view::one(&setting)).unwrap_or(text))?;
    if let Origin::Environment(variable) = origin {
        context
            .terminal
            .warn(&format!("{variable} in the environment takes precedence"));
    }
    if key.secret
        && let [variable, ..] = key.variables
    {
        context.terminal.hint(&format!(
            "set {variable} in the environment to keep the secret out of files"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses a setting's value. `-` reads the value from stdin.
fn parse_value(key: &SettingKey, value: &str) -> Result<Value, Error> {
    let text = if value == "-" {
        stdin()?
    } else {
        value.to_owned()
    };
    // An empty value resets the setting.
    let value = if text.is_empty() {
        Some(Value::String(String::new()))
    } else {
        key.kind.parse(&text)
    };
    value.ok_or_else(|| {
        let shown_value = if key.secret {
            String::new()
        } else {
            format!(" `{text}`")
        };
        Error::usage(format!(
            "invalid value{shown_value} for `{}`: expected {}",
            key.name,
            key.kind.description()
        ))
    })
}

fn stdin() -> Result<String, Error> {
    let text = String::from_utf8(inputs::read_bytes("-")?);
    Ok(text
        .map_err(|_| Error::usage("stdin is not valid UTF-8"))?
        .trim()
        .to_owned())
}
