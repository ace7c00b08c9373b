//! Evaluates parsed templates.

use std::cmp::Ordering;

use serde_json::Value;

use super::errors::JsonPathFailure;
use super::syntax::{CompareOperator, ListSlice, ListSliceEnd, PathFilter, PathStep, TemplatePart};
use crate::json_line;

type Found<'v> = Result<Vec<&'v Value>, JsonPathFailure>;

pub(super) fn render(parts: &[TemplatePart], root: &Value) -> Result<String, JsonPathFailure> {
    let mut text = String::new();
    for part in parts {
        match part {
            TemplatePart::Text(literal) => text.push_str(&shown(literal)),
            TemplatePart::Expression(steps) => {
                let values = walk(steps, vec![root])?;
                let values: Vec<String> = values.into_iter().map(shown).collect();
                text.push_str(&values.join(" "));
            }
            TemplatePart::Range { over, body } => {
                for value in walk(over, vec![root])? {
                    text.push_str(&render(body, value)?);
                }
            }
        }
    }
    Ok(text)
}

pub(super) fn values<'v>(parts: &'v [TemplatePart], root: &'v Value) -> Found<'v> {
    let mut found = Vec::new();
    for part in parts {
        match part {
            TemplatePart::Text(literal) => found.push(literal),
            TemplatePart::Expression(steps) => found.extend(walk(steps, vec![root])?),
            TemplatePart::Range { over, body } => {
                for value in walk(over, vec![root])? {
                    found.extend(values(body, value)?);
                }
            }
        }
    }
    Ok(found)
}

/// Formats a value like kubectl: text without quotes, and lists and objects as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => json_line(other),
    }
}

fn walk<'v>(steps: &'v [PathStep], mut values: Vec<&'v Value>) -> Found<'v> {
    for step in steps {
        values = take(step, values)?;
    }
    Ok(values)
}

fn take<'v>(step: &'v PathStep, values: Vec<&'v Value>) -> Found<'v> {
    match step {
        PathStep::Literal(literal) => Ok(values.iter().map(|_| literal).collect()),
        PathStep::Field(name) => {
            let field = |value: &'v Value| value.get(name);
            Ok(values.into_iter().filter_map(field).collect())
        }
        PathStep::Wildcard => Ok(values.into_iter().flat_map(children).collect()),
        PathStep::Descend => {
            let mut found = Vec::new();
            values
                .into_iter()
                .for_each(|value| descend(value, &mut found));
            Ok(found)
        }
        PathStep::Slice(slice) => each(values, |value, found| entries(*slice, value, found)),
        PathStep::Filter(filter) => each(values, |value, found| select(filter, value, found)),
        PathStep::Union(members) => {
            let mut found = Vec::new();
            for member in members {
                found.extend(walk(member, values.clone())?);
            }
            Ok(found)
        }
    }
}

/// Applies a fallible step to every value. `null` has no entries, because it means unknown.
fn each<'v>(
    values: Vec<&'v Value>,
    step: impl Fn(&'v [Value], &mut Vec<&'v Value>) -> Result<(), JsonPathFailure>,
) -> Found<'v> {
    let mut found = Vec::new();
    for value in values {
        match value {
            Value::Null => {}
            Value::Array(list) => step(list, &mut found)?,
            other => {
                return Err(JsonPathFailure::NotAList { found: kind(other) });
            }
        }
    }
    Ok(found)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

/// Collects a value and all nested values. Like kubectl, skips empty values, numbers and booleans.
fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    let inner = children(value);
    if !inner.is_empty() || value.as_str().is_some_and(|text| !text.is_empty()) {
        found.push(value);
    }
    inner.into_iter().for_each(|value| descend(value, found));
}

fn entries<'v>(
    slice: ListSlice,
    list: &'v [Value],
    found: &mut Vec<&'v Value>,
) -> Result<(), JsonPathFailure> {
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    let from_end = |index: i64| {
        if index < 0 {
            index.saturating_add(length)
        } else {
            index
        }
    };
    let start = from_end(slice.start.unwrap_or(0));
    let end = match slice.end {
        ListSliceEnd::AfterStart => start.saturating_add(1),
        ListSliceEnd::Last => length,
        ListSliceEnd::At(end) => from_end(end),
    };
    if start == end {
        return Ok(());
    }
    if !(0..length).contains(&start) {
        let index = start;
        return Err(JsonPathFailure::OutOfBounds { index, length });
    }
    if !(0..=length).contains(&end) {
        let index = end.saturating_sub(1);
        return Err(JsonPathFailure::OutOfBounds { index, length });
    }
    if start > end {
        return Err(JsonPathFailure::Reversed { start, end });
    }
    let inside = |index: i64| usize::try_from(index).unwrap_or_default();
    found.extend(list[inside(start)..inside(end)].iter().step_by(slice.step));
    Ok(())
}

fn select<'v>(
    filter: &'v PathFilter,
    list: &'v [Value],
    found: &mut Vec<&'v Value>,
) -> Result<(), JsonPathFailure> {
    for entry in list {
        let left = walk(&filter.left, vec![entry]);
        let Some((comparison, right)) = &filter.comparison else {
            // The path does not exist in this entry if the step fails.
            found.extend(left.is_ok_and(|left| !left.is_empty()).then_some(entry));
            continue;
        };
        let (Some(left), Some(right)) = (single(left?)?, single(walk(right, vec![entry])?)?) else {
            continue;
        };
        if compare(left, *comparison, right)? {
            found.push(entry);
        }
    }
    Ok(())
}

/// Returns the only value, or `None` if it is missing or unknown, so that the comparison has no
/// result.
fn single(values: Vec<&Value>) -> Result<Option<&Value>, JsonPathFailure> {
    match values.as_slice() {
        [] | [Value::Null] => Ok(None),
        [value] => Ok(Some(value)),
        _ => Err(JsonPathFailure::SeveralValues {
            count: values.len(),
        }),
    }
}

fn compare(left: &Value, by: CompareOperator, right: &Value) -> Result<bool, JsonPathFailure> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a
                .as_f64()
                .zip(b.as_f64())
                .and_then(|(a, b)| a.partial_cmp(&b)),
        },
        (Value::Bool(a), Value::Bool(b))
            if matches!(by, CompareOperator::Equal | CompareOperator::NotEqual) =>
        {
            Some(a.cmp(b))
        }
        _ => None,
    };
    let order = order.ok_or(JsonPathFailure::NotComparable {
        left: kind(left),
        right: kind(right),
    })?;
    Ok(match by {
        CompareOperator::Equal => order == Ordering::Equal,
        CompareOperator::NotEqual => order != Ordering::Equal,
        CompareOperator::Less => order == Ordering::Less,
        CompareOperator::LessOrEqual => order != Ordering::Greater,
        CompareOperator::Greater => order == Ordering::Greater,
        CompareOperator::GreaterOrEqual => order != Ordering::Less,
    })
}
