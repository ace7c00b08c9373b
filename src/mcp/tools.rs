//! Converts tool arguments into a gpuctl command line. An argument can never become an option.

use serde_json::{Map, Value, json};

use super::argument_error::ArgumentError;
use super::mask::TextSource;
use gpuctl_local::bundle::REDACTED;

/// A tool of the protocol.
#[derive(Debug)]
pub(super) struct AgentTool {
    pub name: &'static str,
    pub about: &'static str,
    /// Verb, noun and fixed options.
    pub command: &'static [&'static str],
    pub parameters: &'static [Parameter],
    /// Origin of the answer's text, which selects the masking rules.
    pub source: TextSource,
    /// Whether the command supports `-o json`.
    pub has_json: bool,
    /// The change of a tool that writes.
    pub change: Option<ToolChange>,
}

/// A change and the command that previews it.
#[derive(Debug)]
pub(super) struct ToolChange {
    /// The preview command, which has the same parameters and writes nothing.
    pub preview: &'static [&'static str],
    pub preview_source: TextSource,
    /// Option that limits the change to the previewed object by its UID. Set if the preview's JSON
    /// has a `uid`.
    pub uid_option: Option<&'static str>,
    /// Describes the change in the preview.
    pub effect: &'static str,
    pub area: WriteArea,
    pub is_destructive: bool,
}

/// A kind of changes, as in `--allow-writes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteArea {
    Jobs,
    Pools,
    Quotas,
    Defaults,
}

#[derive(Debug)]
pub(super) struct Parameter {
    pub name: &'static str,
    about: &'static str,
    pub place: ArgumentPlace,
    pub is_required: bool,
    /// Allowed values of a text. Empty for any text.
    pub choices: &'static [&'static str],
}

/// Position of a value on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentPlace {
    Word,
    Text(&'static str),
    /// Option, minimum and maximum.
    Number(&'static str, u64, u64),
    Switch(&'static str),
    /// Standard input.
    Input,
}

/// A gpuctl command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub words: Vec<String>,
    pub input: String,
}

impl Call {
    /// The same command with JSON output.
    pub(super) fn as_json(&self) -> Self {
        self.with_option("--output=json".to_owned())
    }

    /// Adds an option that the server sets itself.
    pub(super) fn with_option(&self, option: String) -> Self {
        let mut call = self.clone();
        // Insert the option before `--`: all words after `--` are names.
        let end = call
            .words
            .iter()
            .position(|word| word == "--")
            .unwrap_or(call.words.len());
        call.words.insert(end, option);
        call
    }
}

pub(super) const fn optional(
    name: &'static str,
    place: ArgumentPlace,
    about: &'static str,
) -> Parameter {
    Parameter {
        name,
        about,
        place,
        is_required: false,
        choices: &[],
    }
}

pub(super) const fn required(
    name: &'static str,
    place: ArgumentPlace,
    about: &'static str,
) -> Parameter {
    Parameter {
        is_required: true,
        ..optional(name, place, about)
    }
}

/// Restricts a parameter to `choices`.
pub(super) const fn one_of(
    mut parameter: Parameter,
    choices: &'static [&'static str],
) -> Parameter {
    parameter.choices = choices;
    parameter
}

/// Above the number of pages of any answer: a command prints at most 4 MiB.
const LAST_PAGE: u64 = 10_000;
const CONFIRM: &str = "Word from the answer to the same call without `confirm`. That first call changes nothing and shows \
what would be done; the word is valid once, for these arguments, for five minutes";

impl AgentTool {
    /// The JSON Schema of the arguments.
    pub(super) fn schema(&self) -> Map<String, Value> {
        let property = |parameter: &Parameter| {
            let kind = match parameter.place {
                ArgumentPlace::Number(_, minimum, maximum) => json!({
                    "type": "integer", "minimum": minimum, "maximum": maximum,
                    "description": parameter.about
                }),
                ArgumentPlace::Switch(_) => {
                    json!({"type": "boolean", "description": parameter.about})
                }
                _ if !parameter.choices.is_empty() => json!({
                    "type": "string", "enum": parameter.choices, "description": parameter.about
                }),
                _ => json!({"type": "string", "description": parameter.about}),
            };
            (parameter.name.to_owned(), kind)
        };
        let mut properties: Map<String, Value> = self.parameters.iter().map(property).collect();
        match self.change {
            Some(_) => properties.insert(
                "confirm".to_owned(),
                json!({"type": "string", "description": CONFIRM}),
            ),
            None => properties.insert(
                "page".to_owned(),
                json!({
                    "type": "integer", "minimum": 1, "maximum": LAST_PAGE,
                    "description": "Page of a long answer, starting at 1"
                }),
            ),
        };
        let required: Vec<&str> = self
            .parameters
            .iter()
            .filter(|parameter| parameter.is_required)
            .map(|parameter| parameter.name)
            .collect();
        let schema = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        schema.as_object().cloned().unwrap_or_default()
    }

    /// Builds the command line for a call.
    ///
    /// # Errors
    ///
    /// Returns the first argument that does not match the schema.
    pub(super) fn call(
        &self,
        command: &[&str],
        arguments: &Map<String, Value>,
    ) -> Result<Call, ArgumentError> {
        self.check_names(arguments)?;
        let words = command.iter().map(|word| (*word).to_owned()).collect();
        let mut call = Call {
            words,
            input: String::new(),
        };
        let mut positionals = Vec::new();
        for parameter in self.parameters {
            let value = match arguments
                .get(parameter.name)
                .filter(|value| !value.is_null())
            {
                Some(value) => value,
                None if parameter.is_required => {
                    return Err(ArgumentError::Missing {
                        tool: self.name,
                        name: parameter.name,
                        about: parameter.about,
                    });
                }
                None => continue,
            };
            self.add(parameter, value, &mut call, &mut positionals)?;
        }
        // A process argument ends at a NUL byte, so reject words that contain one.
        if call
            .words
            .iter()
            .chain(&positionals)
            .any(|word| word.contains('\0'))
        {
            return Err(ArgumentError::Nul { tool: self.name });
        }
        if !positionals.is_empty() {
            // After `--`, a name that looks like an option remains a name.
            call.words.push("--".to_owned());
            call.words.extend(positionals);
        }
        Ok(call)
    }

    /// Adds an argument at its position. Names go to `positionals`.
    fn add(
        &self,
        parameter: &Parameter,
        value: &Value,
        call: &mut Call,
        positionals: &mut Vec<String>,
    ) -> Result<(), ArgumentError> {
        let wrong_value = |wanted: String| self.wrong_value(parameter.name, wanted, value);
        let text = || match value.as_str() {
            Some(text) if parameter.choices.is_empty() || parameter.choices.contains(&text) => {
                Ok(text.to_owned())
            }
            Some(_) => Err(wrong_value(format!(
                "one of {}",
                parameter.choices.join(", ")
            ))),
            None => Err(wrong_value("a string".to_owned())),
        };
        match parameter.place {
            ArgumentPlace::Word => positionals.push(text()?),
            // Joined with `=`, the value cannot become another option.
            ArgumentPlace::Text(flag) => call.words.push(format!("{flag}={}", text()?)),
            ArgumentPlace::Number(flag, minimum, maximum) => {
                let number = integer(value).filter(|n| (minimum..=maximum).contains(n));
                let wanted = || format!("an integer from {minimum} to {maximum}");
                let number = number.ok_or_else(|| wrong_value(wanted()))?;
                call.words.push(format!("{flag}={number}"));
            }
            ArgumentPlace::Switch(flag) => {
                let is_on = value.as_bool();
                let is_on = is_on.ok_or_else(|| wrong_value("true or false".to_owned()))?;
                call.words.extend(is_on.then(|| flag.to_owned()));
            }
            ArgumentPlace::Input => {
                call.input = text()?;
                if self.change.is_some() && has_mask(&call.input) {
                    return Err(ArgumentError::Masked);
                }
            }
        }
        Ok(())
    }

    fn check_names(&self, arguments: &Map<String, Value>) -> Result<(), ArgumentError> {
        let special = if self.change.is_some() {
            "confirm"
        } else {
            "page"
        };
        let is_known = |name: &str| {
            name == special
                || self
                    .parameters
                    .iter()
                    .any(|parameter| parameter.name == name)
        };
        let Some(unknown) = arguments.keys().find(|name| !is_known(name)) else {
            return Ok(());
        };
        let name_start: String = unknown.chars().take(80).collect();
        // Quoted as JSON, a name cannot start a line that looks like gpuctl's.
        let name_start = Value::from(name_start).to_string();
        let mut names: Vec<&str> = self
            .parameters
            .iter()
            .map(|parameter| parameter.name)
            .collect();
        names.push(special);
        Err(ArgumentError::Unknown {
            tool: self.name,
            shown: name_start,
            known: names.join(", "),
        })
    }

    /// Parses `page`, by default 1.
    ///
    /// # Errors
    ///
    /// Fails if the value is not a positive integer.
    pub(super) fn page(&self, arguments: &Map<String, Value>) -> Result<usize, ArgumentError> {
        let value = match arguments.get("page") {
            None | Some(Value::Null) => return Ok(1),
            Some(value) => value,
        };
        let number = integer(value).filter(|number| (1..=LAST_PAGE).contains(number));
        let wanted = || format!("an integer from 1 to {LAST_PAGE}");
        number
            .and_then(|number| usize::try_from(number).ok())
            .ok_or_else(|| self.wrong_value("page", wanted(), value))
    }

    /// Parses `confirm`, the word that confirms a change. Returns `None` for a preview.
    ///
    /// # Errors
    ///
    /// Fails if the value is not a text. In particular, `true` does not confirm a change.
    pub(super) fn confirmation<'a>(
        &self,
        arguments: &'a Map<String, Value>,
    ) -> Result<Option<&'a str>, ArgumentError> {
        match arguments.get("confirm") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(word)) => Ok(Some(word.as_str())),
            Some(value) => {
                let wanted = "the word that ends the answer to the same call without `confirm`";
                Err(self.wrong_value("confirm", wanted.to_owned(), value))
            }
        }
    }

    fn wrong_value(&self, name: &'static str, wanted: String, value: &Value) -> ArgumentError {
        ArgumentError::WrongValue {
            tool: self.name,
            name,
            wanted,
            shown: value.to_string().chars().take(80).collect(),
        }
    }
}

/// Returns true if a manifest contains a masked value. gpuctl itself cannot reject all of them,
/// because a person may use such a text deliberately.
fn has_mask(manifest: &str) -> bool {
    manifest
        .lines()
        .any(|line| !line.trim_start().starts_with('#') && line.contains(REDACTED))
}

/// Parses a non-negative integer. JSON Schema also accepts `2.0`.
fn integer(value: &Value) -> Option<u64> {
    // Larger floats cannot represent every integer.
    const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
    let whole = |number: &f64| (0.0..=LARGEST_EXACT).contains(number) && number.fract() == 0.0;
    let from_float = || value.as_f64().filter(whole)?.to_string().parse().ok();
    value.as_u64().or_else(from_float)
}

#[cfg(test)]
mod tests;
