//! Syntax tree of templates.

use serde_json::Value;

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TemplatePart {
    Text(Value),
    Expression(Vec<PathStep>),
    Range {
        over: Vec<PathStep>,
        body: Vec<TemplatePart>,
    },
}

/// A step of an expression, which maps each value to any number of values.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PathStep {
    Literal(Value),
    Field(String),
    Slice(ListSlice),
    /// Selects the value and all nested values.
    Descend,
    Wildcard,
    Union(Vec<Vec<PathStep>>),
    Filter(PathFilter),
}

/// A slice of a list. An index is a slice with one entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ListSlice {
    pub start: Option<i64>,
    pub end: ListSliceEnd,
    pub step: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ListSliceEnd {
    /// The entry after the start, for `[3]`.
    AfterStart,
    /// The end of the list, for `[3:]`.
    Last,
    At(i64),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PathFilter {
    pub left: Vec<PathStep>,
    /// Operator and right-hand side, or `None` if only the existence of `left` is checked.
    pub comparison: Option<(CompareOperator, Vec<PathStep>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompareOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Returns the field with which the template begins, if any.
pub(super) fn first_field(parts: &[TemplatePart]) -> Option<&str> {
    match parts {
        [TemplatePart::Expression(steps), ..] => match steps.as_slice() {
            [PathStep::Field(name), ..] => Some(name),
            _ => None,
        },
        _ => None,
    }
}
