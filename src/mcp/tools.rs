//! Converts the arguments of a tool call into a gpuctl command line. An agent's argument can never
//! become an option.

use serde_json::{Map, Value, json};

use super::mask::TextSource;

/// A tool of the protocol.
#[derive(Debug)]
pub(super) struct AgentTool {
    pub name: &'static str,
    pub about: &'static str,
    /// The verb, its noun, and fixed options.
    pub command: &'static [&'static str],
    pub parameters: &'static [Parameter],
    /// Where the answer's text comes from, which determines how secrets in it are masked.
    pub source: TextSource,
    /// Whether the command supports `-o json`.
    pub has_json: bool,
    /// The change that the tool makes, if it writes.
    pub change: Option<ToolChange>,
}

/// The change that a tool makes, and the command that previews it.
#[derive(Debug)]
pub(super) struct ToolChange {
    /// The preview command. It accepts the same parameters and writes nothing.
    pub preview: &'static [&'static str],
    pub preview_source: TextSource,
    /// The option that uses the UID to limit the change to the object in the preview. Set if the
    /// preview's JSON has a `uid`.
    pub uid_option: Option<&'static str>,
    /// Describes the change in the first answer.
    pub effect: &'static str,
    pub area: WriteArea,
    pub is_destructive: bool,
}

/// The values of `--allow-writes`.
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
}

/// Where a value goes on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentPlace {
    Word,
    Text(&'static str),
    Number(&'static str),
    Switch(&'static str),
    /// Standard input.
    Input,
}

/// Why the arguments of a call were refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArgumentError {
    #[error("`{tool}` needs `{name}`: {about}")]
    Missing {
        tool: &'static str,
        name: &'static str,
        about: &'static str,
    },
    #[error("`{name}` of `{tool}` must be {wanted}, not {shown}")]
    WrongType {
        tool: &'static str,
        name: &'static str,
        wanted: &'static str,
        /// The first characters of the value.
        shown: String,
    },
    #[error("`{tool}` has no argument `{shown}`; it has {known}")]
    Unknown {
        tool: &'static str,
        shown: String,
        known: String,
    },
    #[error("an argument of `{tool}` contains a NUL character")]
    Nul { tool: &'static str },
}

/// A gpuctl command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub words: Vec<String>,
    pub input: String,
}

impl Call {
    /// Requests the JSON form of the same answer.
    pub(super) fn as_json(&self) -> Self {
        self.with_option("--output=json".to_owned())
    }

    /// Adds an option of the server itself.
    pub(super) fn with_option(&self, option: String) -> Self {
        let mut call = self.clone();
        // The option goes before `--`, because every word after that is a name.
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

const CONFIRM: &str = "Word from the answer to the same call without `confirm`. That first call changes nothing and shows \
what would be done; the word is valid once, for these arguments, for five minutes";

impl AgentTool {
    /// Returns the JSON Schema of the arguments.
    pub(super) fn schema(&self) -> Map<String, Value> {
        let property = |parameter: &Parameter| {
            let kind = match parameter.place {
                ArgumentPlace::Number(_) => {
                    json!({"type": "integer", "minimum": 0, "description": parameter.about})
                }
                ArgumentPlace::Switch(_) => {
                    json!({"type": "boolean", "description": parameter.about})
                }
                _ => json!({"type": "string", "description": parameter.about}),
            };
            (parameter.name.to_owned(), kind)
        };
        let mut properties: Map<String, Value> = self.parameters.iter().map(property).collect();
        match self.change {
            Some(_) => properties.insert("confirm".to_owned(), json!({"type": "string", "description": CONFIRM})),
            None => properties.insert(
                "page".to_owned(),
                json!({"type": "integer", "minimum": 1, "description": "Page of a long answer, starting at 1"}),
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

    /// Returns the command line for these arguments.
    ///
    /// # Errors If an argument is invalid. The first one is reported as error -32602.
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
        // A process argument ends at a NUL byte, so a word that contains one would be truncated or
        // make the command fail.
        if call
            .words
            .iter()
            .chain(&positionals)
            .any(|word| word.contains('\0'))
        {
            return Err(ArgumentError::Nul { tool: self.name });
        }
        if !positionals.is_empty() {
            // After `--`, a name that looks like an option is still a name.
            call.words.push("--".to_owned());
            call.words.extend(positionals);
        }
        Ok(call)
    }

    /// Adds the value of a parameter at its position. Words go to `positionals`.
    fn add(
        &self,
        parameter: &Parameter,
        value: &Value,
        call: &mut Call,
        positionals: &mut Vec<String>,
    ) -> Result<(), ArgumentError> {
        let wrong_type = |expected| self.wrong_type(parameter.name, expected, value);
        let text = || {
            value
                .as_str()
                .map(ToOwned::to_owned)
                .ok_or_else(|| wrong_type("a string"))
        };
        match parameter.place {
            ArgumentPlace::Word => positionals.push(text()?),
            // The value is in the same word as its option, so that it cannot become another option.
            ArgumentPlace::Text(flag) => call.words.push(format!("{flag}={}", text()?)),
            ArgumentPlace::Number(flag) => {
                let number = value
                    .as_u64()
                    .ok_or_else(|| wrong_type("a non-negative integer"))?;
                call.words.push(format!("{flag}={number}"));
            }
            ArgumentPlace::Switch(flag) => {
                let is_on = value.as_bool().ok_or_else(|| wrong_type("true or false"))?;
                call.words.extend(is_on.then(|| flag.to_owned()));
            }
            ArgumentPlace::Input => call.input = text()?,
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

    /// Parses `page`. The default is the first page.
    ///
    /// # Errors If it is not a positive integer.
    pub(super) fn page(&self, arguments: &Map<String, Value>) -> Result<usize, ArgumentError> {
        let value = match arguments.get("page") {
            None | Some(Value::Null) => return Ok(1),
            Some(value) => value,
        };
        let number = value
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
            .filter(|number| *number > 0);
        number.ok_or_else(|| self.wrong_type("page", "a positive integer", value))
    }

    fn wrong_type(
        &self,
        name: &'static str,
        expected: &'static str,
        value: &Value,
    ) -> ArgumentError {
        ArgumentError::WrongType {
            tool: self.name,
            name,
            wanted: expected,
            shown: value.to_string().chars().take(80).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
