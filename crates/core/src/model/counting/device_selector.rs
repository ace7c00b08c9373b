//! Evaluates the CEL expressions that select devices, in the environment that Kubernetes defines
//! for them (`k8s.io/dynamic-resource-allocation/cel`).
//!
//! A result is unknown if an expression uses a function that gpuctl does not implement, or if the
//! evaluation fails. For the scheduler, a failure such as a missing attribute is an error that
//! stops the placement of the pod.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use cel::common::ast::{ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue};
use cel::common::types::{CelBool, CelInt, CelMap, CelString};
use cel::common::value::Val;
use cel::parser::{Macro, MacroExprHelper, ParseError};
use cel::{Context, DeclarationError, Env, Program, Value};

use super::cel_values::{CelQuantity, CelVersion, DomainMap, add_functions};
use super::device_supply::{AttributeValue, OfferedDevice};

/// Compiled expressions that a device must all satisfy, in the order of evaluation.
pub struct DeviceSelectors(Vec<Option<Program>>);

static ENVIRONMENT: LazyLock<Arc<Env>> =
    LazyLock::new(|| Arc::new(environment().expect("the declarations do not conflict")));

fn environment() -> Result<Env, DeclarationError> {
    let mut env = Env::stdlib();
    env.add_extension(cel::extensions::strings)?;
    add_functions(&mut env)?;
    env.add_macro(Macro::receiver("bind", 3, expand_bind))?;
    Ok(env)
}

impl DeviceSelectors {
    /// Compiles expressions. One that cannot be compiled makes results unknown.
    pub fn compile(expressions: &[String]) -> Self {
        let compile = |text: &String| ENVIRONMENT.compile(text).ok();
        Self(expressions.iter().map(compile).collect())
    }

    /// Returns whether a device satisfies all expressions, or `None` if that is unknown. The first
    /// expression that does not hold ends the evaluation.
    pub fn select(&self, device: &OfferedDevice) -> Option<bool> {
        let context = context(device);
        for program in &self.0 {
            match program.as_ref()?.execute(&context) {
                Ok(Value::Bool(true)) => {}
                Ok(Value::Bool(false)) => return Some(false),
                _ => return None,
            }
        }
        Some(true)
    }
}

/// Builds the variable `device`.
fn context(device: &OfferedDevice) -> Context<'_, '_> {
    let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
    let attributes = device
        .attributes
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), attribute(value)?)));
    let capacity = device
        .capacity
        .iter()
        .filter_map(|(name, text)| Some((name.as_str(), CelQuantity::parse(text)?.boxed())));
    let driver = CelString::from(device.key.driver.clone());
    let fields: BTreeMap<String, Box<dyn Val>> = BTreeMap::from([
        ("driver".to_owned(), Box::new(driver) as Box<dyn Val>),
        ("attributes".to_owned(), Box::new(by_domain(attributes))),
        ("capacity".to_owned(), Box::new(by_domain(capacity))),
        (
            // Devices that allow several allocations are not countable, and never compared.
            "allowMultipleAllocations".to_owned(),
            Box::new(CelBool::from(false)),
        ),
    ]);
    context.add_variable_as_val("device", Box::new(map(fields)));
    context
}

fn attribute(value: &AttributeValue) -> Option<Box<dyn Val>> {
    Some(match value {
        AttributeValue::Text(text) => Box::new(CelString::from(text.clone())),
        AttributeValue::Int(number) => Box::new(CelInt::from(*number)),
        AttributeValue::Bool(flag) => Box::new(CelBool::from(*flag)),
        AttributeValue::Version(text) => Box::new(CelVersion::parse(text)?),
        AttributeValue::Other => return None,
    })
}

/// Groups values named `domain/name` by their domain.
fn by_domain<'n>(values: impl Iterator<Item = (&'n str, Box<dyn Val>)>) -> DomainMap {
    let mut domains: BTreeMap<String, BTreeMap<String, Box<dyn Val>>> = BTreeMap::new();
    for (name, value) in values {
        let (domain, name) = name.split_once('/').unwrap_or(("", name));
        domains
            .entry(domain.to_owned())
            .or_default()
            .insert(name.to_owned(), value);
    }
    DomainMap::new(
        domains
            .into_iter()
            .map(|(name, values)| (name, map(values))),
    )
}

fn map(fields: BTreeMap<String, Box<dyn Val>>) -> CelMap<'static> {
    let entries = fields.into_iter().map(|(name, value)| (name.into(), value));
    CelMap::from(entries.collect::<std::collections::HashMap<_, _>>())
}

/// Rewrites `cel.bind(name, value, body)` as a comprehension over an empty list, whose accumulator
/// is `name`. The crate has no such macro.
fn expand_bind(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
) -> Result<Option<IdedExpr>, ParseError> {
    let is_namespace = target
        .as_ref()
        .is_some_and(|target| matches!(&target.expr, Expr::Ident(name) if name == "cel"));
    let Some(Expr::Ident(name)) = args.first().map(|name| name.expr.clone()) else {
        return Ok(None);
    };
    if !is_namespace {
        return Ok(None);
    }
    let (Some(body), Some(value)) = (args.pop(), args.pop()) else {
        return Ok(None);
    };
    let empty = ListExpr {
        elements: Vec::new(),
        optional_indices: Vec::new(),
    };
    let comprehension = ComprehensionExpr {
        iter_range: helper.next_expr(Expr::List(empty)),
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        accu_var: name.clone(),
        accu_init: value,
        loop_cond: helper.next_expr(Expr::Literal(LiteralValue::Boolean(false.into()))),
        loop_step: helper.next_expr(Expr::Ident(name)),
        result: body,
    };
    let bound = helper.next_expr(Expr::Comprehension(Box::new(comprehension)));
    Ok(Some(bound))
}

#[cfg(test)]
mod tests;
