//! Field selectors in the syntax of `kubectl --field-selector`, for fields that jobs of every kind
//! have.

use std::fmt;

/// Requirements on name and namespace. All must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSelector(Vec<FieldRequirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    field: SelectedField,
    is_equal: bool,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SelectedField {
    Name,
    Namespace,
}

/// Reason why a field selector is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldSelectorMistake {
    NoOperator {
        requirement: String,
    },
    /// The field exists in Kubernetes, but gpuctl has a better filter.
    Status {
        field: String,
    },
    UnknownField {
        field: String,
    },
}

impl fmt::Display for FieldSelectorMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const FIELDS: &str = "metadata.name and metadata.namespace";
        match self {
            Self::NoOperator { requirement } => {
                write!(
                    f,
                    "expected FIELD=VALUE or FIELD!=VALUE, found `{requirement}`"
                )
            }
            Self::Status { field } => write!(
                f,
                "`{field}` differs between the kinds of jobs; use `--status` instead, or one of \
                 the fields {FIELDS}"
            ),
            Self::UnknownField { field } => {
                write!(f, "`{field}` cannot be selected, only {FIELDS}")
            }
        }
    }
}

impl std::error::Error for FieldSelectorMistake {}

impl FieldSelector {
    /// Parses requirements such as `metadata.name!=a,metadata.namespace=team-a`.
    pub fn parse(text: &str) -> Result<Self, FieldSelectorMistake> {
        text.split(',')
            .map(requirement)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns true if every requirement matches.
    pub fn matches(&self, namespace: &str, name: &str) -> bool {
        self.0.iter().all(|requirement| {
            let value = match requirement.field {
                SelectedField::Name => name,
                SelectedField::Namespace => namespace,
            };
            (value == requirement.value) == requirement.is_equal
        })
    }
}

fn requirement(text: &str) -> Result<FieldRequirement, FieldSelectorMistake> {
    let operators = [("!=", false), ("==", true), ("=", true)];
    let parsed = operators.iter().find_map(|(operator, is_equal)| {
        let (field, value) = text.split_once(operator)?;
        Some((field.trim(), *is_equal, value.trim()))
    });
    let (field, is_equal, value) = parsed.ok_or_else(|| FieldSelectorMistake::NoOperator {
        requirement: text.to_owned(),
    })?;
    let field = match field {
        "metadata.name" => SelectedField::Name,
        "metadata.namespace" => SelectedField::Namespace,
        field if field.starts_with("status.") => {
            return Err(FieldSelectorMistake::Status {
                field: field.to_owned(),
            });
        }
        field => {
            return Err(FieldSelectorMistake::UnknownField {
                field: field.to_owned(),
            });
        }
    };
    Ok(FieldRequirement {
        field,
        is_equal,
        value: value.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_namespaces_are_selected() {
        let matches = |selector: &str| FieldSelector::parse(selector).unwrap().matches("ml", "a");
        assert!(matches("metadata.name=a") && matches("metadata.name==a,metadata.namespace=ml"));
        assert!(matches("metadata.namespace!=default") && !matches("metadata.name!=a"));
        assert!(!matches("metadata.name=a,metadata.namespace=other"));
    }

    #[test]
    fn other_fields_are_rejected_with_what_to_use() {
        let mistake = |selector: &str| FieldSelector::parse(selector).unwrap_err().to_string();
        assert!(mistake("status.successful=1").contains("use `--status` instead"));
        assert!(mistake("spec.suspend=true").contains("only metadata.name"));
        assert!(mistake("").contains("expected FIELD=VALUE"));
    }
}
