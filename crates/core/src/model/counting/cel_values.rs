//! The CEL types and functions that Kubernetes adds for device selectors: quantities, semantic
//! versions, and maps that contain every domain (`k8s.io/apiserver/pkg/cel/library`).

use std::any::Any;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use cel::common::traits::{Container, Indexer};
use cel::common::types::{CelBool, CelInt, CelMap, CelString, MAP_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError, add_member_overload, add_overload};

use crate::model::values::quantity;

static QUANTITY: Type = Type::new_unspecified_type("kubernetes.Quantity");
static VERSION: Type = Type::new_unspecified_type("kubernetes.Semver");

/// A Kubernetes quantity in thousandths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CelQuantity(i128);

impl CelQuantity {
    pub(super) fn parse(text: &str) -> Option<Self> {
        quantity::milli(text).map(Self)
    }

    pub(super) fn boxed(self) -> Box<dyn Val> {
        Box::new(self)
    }
}

impl Val for CelQuantity {
    fn get_type(&self) -> &Type {
        <Self as Val>::cel_type()
    }

    fn cel_type() -> &'static Type {
        &QUANTITY
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>() == Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for CelQuantity {}

/// A semantic version (semver 2.0.0) without its build metadata, which has no precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CelVersion {
    numbers: [u64; 3],
    /// Identifiers of the pre-release; empty for a release.
    pre_release: Vec<String>,
}

impl CelVersion {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let without_build = text.split_once('+').map_or(text, |(version, _)| version);
        let (release, pre_release) = without_build
            .split_once('-')
            .map_or((without_build, None), |(release, pre)| (release, Some(pre)));
        let number = |part: &str| {
            let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
            let has_leading_zero = part.len() > 1 && part.starts_with('0');
            part.parse().ok().filter(|_| is_number && !has_leading_zero)
        };
        let numbers: Option<Vec<u64>> = release.split('.').map(number).collect();
        let pre_release = pre_release.map(|text| text.split('.').map(ToOwned::to_owned));
        Some(Self {
            numbers: numbers?.try_into().ok()?,
            pre_release: pre_release.into_iter().flatten().collect(),
        })
    }
}

impl Ord for CelVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        // A release is higher than its pre-releases. Numeric identifiers are lower than others.
        let rank = |version: &Self| version.pre_release.is_empty();
        let identifiers = |version: &Self| -> Vec<(Option<u64>, String)> {
            let key = |text: &String| {
                text.parse()
                    .map_or((None, text.clone()), |n| (Some(n), String::new()))
            };
            version.pre_release.iter().map(key).collect()
        };
        let by_identifier = || {
            let (ours, theirs) = (identifiers(self), identifiers(other));
            let differing = ours.iter().zip(&theirs).find(|(a, b)| a != b);
            differing.map_or(ours.len().cmp(&theirs.len()), |(a, b)| match (a.0, b.0) {
                (Some(a), Some(b)) => a.cmp(&b),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => a.1.cmp(&b.1),
            })
        };
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| rank(self).cmp(&rank(other)))
            .then_with(by_identifier)
    }
}

impl PartialOrd for CelVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Val for CelVersion {
    fn get_type(&self) -> &Type {
        <Self as Val>::cel_type()
    }

    fn cel_type() -> &'static Type {
        &VERSION
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>() == Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for CelVersion {}

/// Maps by domain. A domain without values is an empty map, so that `has()` of one of its names is
/// false instead of an error.
#[derive(Debug)]
pub(super) struct DomainMap(BTreeMap<String, CelMap<'static>>);

impl DomainMap {
    pub(super) fn new(domains: impl Iterator<Item = (String, CelMap<'static>)>) -> Self {
        Self(domains.collect())
    }

    fn find(&self, key: &dyn Val) -> Option<&CelMap<'static>> {
        self.0.get(key.downcast_ref::<CelString<'_>>()?.inner())
    }
}

impl Val for DomainMap {
    fn get_type(&self) -> &Type {
        <Self as Val>::cel_type()
    }

    fn cel_type() -> &'static Type {
        &MAP_TYPE
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(Self(self.0.clone()))
    }
}

impl Container for DomainMap {
    fn contains(&self, key: &dyn Val) -> Result<bool, ExecutionError> {
        Ok(self.find(key).is_some())
    }
}

impl Indexer for DomainMap {
    fn get<'b, 'v>(&'b self, key: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        Ok(match self.find(key) {
            Some(values) => CowVal::Borrowed(values),
            None => CowVal::owned(CelMap::default()),
        })
    }

    fn steal<'v>(self: Box<Self>, key: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        self.get(key).map(CowVal::into_owned)
    }
}

/// Declares the functions of quantities and versions that selectors use.
pub(super) fn add_functions(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(QUANTITY.to_owned())?;
    env.add_type(VERSION.to_owned())?;
    add_overload!(env, fn parse_quantity: (CelString) -> Result<CelQuantity>, name = "quantity")?;
    add_overload!(env, fn is_quantity: (CelString) -> CelBool)?;
    add_overload!(env, fn parse_version: (CelString) -> Result<CelVersion>, name = "semver")?;
    add_overload!(env, fn is_version: (CelString) -> CelBool, name = "isSemver")?;
    add_member_overload!(env, fn compare: (CelQuantity, CelQuantity) -> CelInt,
        name = "compareTo")?;
    add_member_overload!(env, fn is_less: (CelQuantity, CelQuantity) -> CelBool,
        name = "isLessThan")?;
    add_member_overload!(env, fn is_greater: (CelQuantity, CelQuantity) -> CelBool,
        name = "isGreaterThan")?;
    add_member_overload!(env, fn sum: (CelQuantity, CelQuantity) -> CelQuantity, name = "add")?;
    add_member_overload!(env, fn difference: (CelQuantity, CelQuantity) -> CelQuantity,
        name = "sub")?;
    add_member_overload!(env, fn sign: (CelQuantity) -> CelInt)?;
    add_member_overload!(env, fn is_integer: (CelQuantity) -> CelBool)?;
    add_member_overload!(env, fn as_integer: (CelQuantity) -> Result<CelInt>)?;
    add_member_overload!(env, fn compare: (CelVersion, CelVersion) -> CelInt,
        name = "compareTo")?;
    add_member_overload!(env, fn is_less: (CelVersion, CelVersion) -> CelBool,
        name = "isLessThan")?;
    add_member_overload!(env, fn is_greater: (CelVersion, CelVersion) -> CelBool,
        name = "isGreaterThan")?;
    add_member_overload!(env, fn major: (CelVersion) -> CelInt)?;
    add_member_overload!(env, fn minor: (CelVersion) -> CelInt)?;
    add_member_overload!(env, fn patch: (CelVersion) -> CelInt)
}

fn parse_quantity(text: &CelString<'_>) -> Result<CelQuantity, ExecutionError> {
    CelQuantity::parse(text.inner())
        .ok_or_else(|| ExecutionError::function_error("quantity", "invalid quantity"))
}

fn is_quantity(text: &CelString<'_>) -> CelBool {
    CelBool::from(CelQuantity::parse(text.inner()).is_some())
}

fn parse_version(text: &CelString<'_>) -> Result<CelVersion, ExecutionError> {
    CelVersion::parse(text.inner())
        .ok_or_else(|| ExecutionError::function_error("semver", "invalid version"))
}

fn is_version(text: &CelString<'_>) -> CelBool {
    CelBool::from(CelVersion::parse(text.inner()).is_some())
}

fn compare<T: Ord>(this: &T, other: &T) -> CelInt {
    CelInt::from(this.cmp(other) as i64)
}

fn is_less<T: Ord>(this: &T, other: &T) -> CelBool {
    CelBool::from(this < other)
}

fn is_greater<T: Ord>(this: &T, other: &T) -> CelBool {
    CelBool::from(this > other)
}

fn sum(this: &CelQuantity, other: &CelQuantity) -> CelQuantity {
    CelQuantity(this.0.saturating_add(other.0))
}

fn difference(this: &CelQuantity, other: &CelQuantity) -> CelQuantity {
    CelQuantity(this.0.saturating_sub(other.0))
}

fn sign(this: &CelQuantity) -> CelInt {
    CelInt::from(this.0.signum() as i64)
}

fn is_integer(this: &CelQuantity) -> CelBool {
    CelBool::from(this.0 % 1000 == 0)
}

fn as_integer(this: &CelQuantity) -> Result<CelInt, ExecutionError> {
    let integer = i64::try_from(this.0 / 1000).ok();
    integer
        .filter(|_| this.0 % 1000 == 0)
        .map(CelInt::from)
        .ok_or_else(|| ExecutionError::function_error("asInteger", "not an integer"))
}

fn major(this: &CelVersion) -> CelInt {
    number(this.numbers[0])
}

fn minor(this: &CelVersion) -> CelInt {
    number(this.numbers[1])
}

fn patch(this: &CelVersion) -> CelInt {
    number(this.numbers[2])
}

fn number(number: u64) -> CelInt {
    CelInt::from(i64::try_from(number).unwrap_or(i64::MAX))
}
