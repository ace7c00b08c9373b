//! The syntax tree of templates.

use serde_json::Value;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TemplatePart {
    Text(Value),
    Expression(Vec<PathStep>),
    Range {
        over: Vec<PathStep>,
        body: Vec<TemplatePart>,
    },
}

/// A step of an expression, from values to values.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PathStep {
    Literal(Value),
    Field(String),
    Slice(ListSlice),
    /// The value itself, and everything in it.
    Descend,
    Wildcard,
    Union(Vec<Vec<PathStep>>),
    Filter(PathFilter),
}

/// A range of a list; an index is a range of one entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ListSlice {
    pub start: Option<i64>,
    pub end: ListSliceEnd,
    pub step: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ListSliceEnd {
    /// After the first entry, for `[3]`.
    AfterStart,
    /// At the end of the list, for `[3:]`.
    Last,
    At(i64),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PathFilter {
    pub left: Vec<PathStep>,
    /// `None` if only the existence of `left` is checked.
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

/// The first field of a template that begins with one.
pub(super) fn first_field(parts: &[TemplatePart]) -> Option<&str> {
    match parts {
        [TemplatePart::Expression(steps), ..] => match steps.as_slice() {
            [PathStep::Field(name), ..] => Some(name),
            _ => None,
        },
        _ => None,
    }
}
