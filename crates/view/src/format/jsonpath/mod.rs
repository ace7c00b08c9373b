//! kubectl's dialect of JSONPath: templates with `{range}`, filters, unions and slices.
//!
//! Existing crates implement RFC 9535. kubectl's dialect is a template with literal text, prints
//! nothing for missing fields, and has no regular expressions. The rules are those of
//! `k8s.io/client-go/util/jsonpath`, and the tests compare the results. In addition, quotes of both
//! kinds are accepted in brackets, and `null`, which gpuctl prints for unknown values, never
//! matches a comparison.

mod errors;
mod evaluate;
mod parse;
mod parse_text;
mod syntax;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub use errors::{JsonPathFailure, JsonPathMistake};
use syntax::TemplatePart;

/// A parsed template.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<TemplatePart>);

impl JsonPath {
    /// Parses a template such as `{.items[*].jobId}`.
    pub fn parse(template: &str) -> Result<Self, JsonPathMistake> {
        parse::template(template).map(Self)
    }

    /// Parses the field of a custom column. As in kubectl, the braces and the first dot are
    /// optional.
    pub fn parse_field(field: &str) -> Result<Self, JsonPathMistake> {
        let inner = field
            .strip_prefix('{')
            .and_then(|field| field.strip_suffix('}'))
            .unwrap_or(field);
        let dot = if inner.starts_with(['.', '[', '@', '$']) {
            ""
        } else {
            "."
        };
        parse::template(&format!("{{{dot}{inner}}}")).map(Self)
    }

    /// Renders the template with the values of a document.
    pub fn render(&self, document: &Value) -> Result<String, JsonPathFailure> {
        evaluate::render(&self.0, document)
    }

    /// Returns the values that the expressions select.
    pub fn values<'v>(&'v self, document: &'v Value) -> Result<Vec<&'v Value>, JsonPathFailure> {
        evaluate::values(&self.0, document)
    }

    /// Returns the field with which the template begins, if any.
    pub fn first_field(&self) -> Option<&str> {
        syntax::first_field(&self.0)
    }
}
