//! Prices of GPU-hours and energy, and budgets of groups, as read from the files of `report
//! --prices` and `report --budget`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::model::facts::gpu::GpuType;

/// Prices of a GPU-hour by GPU type.
type TypePrices = BTreeMap<String, f64>;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices {
    pub currency: String,
    /// Default price of a GPU-hour, for types and pools that are not listed.
    pub gpu_hour: Option<f64>,
    pub gpu_types: TypePrices,
    pub pools: BTreeMap<String, PoolPrices>,
    pub kwh: f64,
}

/// Prices of a GPU-hour in one pool. They take precedence over prices outside of the pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolPrices {
    /// Default price in this pool, for types that are not listed.
    pub gpu_hour: Option<f64>,
    pub gpu_types: TypePrices,
}

/// Keys and values of a price file, for hints.
pub const PRICE_KEYS: &str = "currency, gpu_hour, kwh, gpu_types: {TYPE: PRICE}, \
    pools: {NAME: PRICE} and TYPE: PRICE";

impl Prices {
    /// Returns why the prices are invalid, if they are.
    pub fn problem(&self) -> Option<String> {
        let of_pools = self.pools.values().flat_map(|pool| {
            let named = pool
                .gpu_types
                .iter()
                .map(|(key, price)| (key.as_str(), *price));
            named.chain(pool.gpu_hour.map(|price| ("gpu_hour", price)))
        });
        let named = self
            .gpu_types
            .iter()
            .map(|(key, price)| (key.as_str(), *price));
        let mut all = named
            .chain(of_pools)
            .chain(self.gpu_hour.map(|price| ("gpu_hour", price)))
            .chain([("kwh", self.kwh)]);
        let wrong = all.find(|(_, price)| !price.is_finite() || *price < 0.0);
        if let Some((key, price)) = wrong {
            return Some(format!("`{key}` is {price}; prices cannot be negative"));
        }
        let types = self.pools.values().map(|pool| &pool.gpu_types);
        let mut types = types.chain([&self.gpu_types]).flat_map(BTreeMap::keys);
        let unknown = types.find(|name| GpuType::parse(name).is_none())?;
        Some(format!("`{unknown}` is not a GPU type"))
    }

    /// Whether the price of a GPU-hour depends on the GPU type or the pool.
    pub fn has_classes(&self) -> bool {
        !self.gpu_types.is_empty() || !self.pools.is_empty()
    }

    /// Selects the price of a GPU-hour. The most specific price wins: of the type in the pool, of
    /// the pool, of the type, and of all GPUs. Returns `None` if there is no price, or if the type
    /// is unknown and decides the price.
    pub fn gpu_hour(&self, gpu_type: Option<&str>, pool: Option<&str>) -> Option<f64> {
        if !self.has_classes() {
            // A file may contain only the price of energy.
            return Some(self.gpu_hour.unwrap_or(0.0));
        }
        if let Some(pool) = pool.and_then(|pool| self.pools.get(pool)) {
            match by_type(&pool.gpu_types, gpu_type) {
                TypePrice::Known(price) => return Some(price),
                TypePrice::Unclear => return None,
                TypePrice::NoPrice if pool.gpu_hour.is_some() => return pool.gpu_hour,
                TypePrice::NoPrice => {}
            }
        }
        match by_type(&self.gpu_types, gpu_type) {
            TypePrice::Known(price) => Some(price),
            TypePrice::Unclear => None,
            TypePrice::NoPrice => self.gpu_hour,
        }
    }

    /// Computes the cost of the energy that GPUs used during `gpu_hours`. Returns `None` if energy
    /// has a price but was not measured.
    pub fn energy(&self, gpu_hours: f64, kwh: Option<f64>) -> Option<f64> {
        // Zero GPU-hours used no energy, so ignore a missing measurement.
        match self.kwh > 0.0 && gpu_hours > 0.0 {
            true => Some(kwh? * self.kwh),
            false => Some(0.0),
        }
    }
}

/// The price of one type in a list.
enum TypePrice {
    Known(f64),
    /// The list names no such type.
    NoPrice,
    /// The type is unknown, or several types with different prices may be meant.
    Unclear,
}

fn by_type(prices: &TypePrices, gpu_type: Option<&str>) -> TypePrice {
    if prices.is_empty() {
        return TypePrice::NoPrice;
    }
    let Some(gpu_type) = gpu_type.and_then(GpuType::parse) else {
        return TypePrice::Unclear;
    };
    let parsed = || {
        let named = |(name, price): (&String, &f64)| Some((GpuType::parse(name)?, *price));
        prices.iter().filter_map(named)
    };
    if let Some((_, price)) = parsed().find(|(named, _)| *named == gpu_type) {
        return TypePrice::Known(price);
    }
    // `a100` means every memory size. The type of a node without a size may be any of several.
    let mut matches = parsed().filter(|(named, _)| named.matches(&gpu_type));
    match matches.next() {
        None => TypePrice::NoPrice,
        Some((_, price)) if matches.all(|(_, other)| other == price) => TypePrice::Known(price),
        Some(_) => TypePrice::Unclear,
    }
}

impl<'de> Deserialize<'de> for Prices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PricesVisitor)
    }
}

/// Keys of a price file, apart from GPU types.
const FIELDS: [&str; 5] = ["currency", "gpu_hour", "kwh", "gpu_types", "pools"];

/// Reads the keys of a price file by hand: serde's `flatten` loses the positions of errors.
struct PricesVisitor;

impl<'de> Visitor<'de> for PricesVisitor {
    type Value = Prices;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("prices")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Prices, A::Error> {
        let mut prices = Prices::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "currency" => prices.currency = map.next_value()?,
                "gpu_hour" => prices.gpu_hour = Some(map.next_value()?),
                "kwh" => prices.kwh = map.next_value()?,
                "gpu_types" => prices.gpu_types.extend(map.next_value::<TypePrices>()?),
                "pools" => prices.pools = map.next_value()?,
                _ if is_type_name(&key) => {
                    prices.gpu_types.insert(key, map.next_value()?);
                }
                // This error contains its position in the file, unlike `custom`.
                _ => return Err(A::Error::unknown_field(&key, &FIELDS)),
            }
        }
        Ok(prices)
    }
}

/// Whether a key outside of `gpu_types` is a GPU type. Names of models contain digits, and a
/// misspelled key such as `gpu_hours` does not.
fn is_type_name(key: &str) -> bool {
    key.contains(|c: char| c.is_ascii_digit()) && GpuType::parse(key).is_some()
}

impl<'de> Deserialize<'de> for PoolPrices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PoolPricesVisitor)
    }
}

/// Reads the prices of a pool: one number, or a number by GPU type.
struct PoolPricesVisitor;

impl<'de> Visitor<'de> for PoolPricesVisitor {
    type Value = PoolPrices;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a price, or prices by GPU type")
    }

    fn visit_f64<E>(self, price: f64) -> Result<PoolPrices, E> {
        Ok(PoolPrices {
            gpu_hour: Some(price),
            ..PoolPrices::default()
        })
    }

    fn visit_i64<E: serde::de::Error>(self, price: i64) -> Result<PoolPrices, E> {
        self.visit_f64(price as f64)
    }

    fn visit_u64<E: serde::de::Error>(self, price: u64) -> Result<PoolPrices, E> {
        self.visit_f64(price as f64)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PoolPrices, A::Error> {
        let mut prices = PoolPrices::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "gpu_hour" => prices.gpu_hour = Some(map.next_value()?),
                _ => {
                    prices.gpu_types.insert(key, map.next_value()?);
                }
            }
        }
        Ok(prices)
    }
}

/// Amounts that a group may use within the period of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowance {
    pub gpu_hours: Option<f64>,
    /// Cost in the currency of the prices.
    pub cost: Option<f64>,
}

/// Budgets of all groups.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    #[serde(default)]
    pub groups: BTreeMap<String, Allowance>,
    /// Budget of each group without an entry.
    pub default: Option<Allowance>,
    /// Budget of all groups together.
    pub total: Option<Allowance>,
}

impl Budget {
    /// Returns why the budget is invalid, if it is.
    pub fn problem(&self) -> Option<String> {
        let allowances = || self.groups.values().chain(&self.default).chain(&self.total);
        let amounts = || {
            allowances()
                .flat_map(|allowance| [allowance.gpu_hours, allowance.cost])
                .flatten()
        };
        if allowances().any(|allowance| allowance.gpu_hours.is_none() && allowance.cost.is_none()) {
            return Some("a budget needs gpu_hours, cost or both".to_owned());
        }
        (!amounts().all(|amount| amount.is_finite() && amount >= 0.0))
            .then(|| "a budget cannot be negative".to_owned())
    }

    pub fn for_group(&self, group: Option<&str>) -> Option<Allowance> {
        group
            .and_then(|group| self.groups.get(group))
            .copied()
            .or(self.default)
    }

    pub fn has_costs(&self) -> bool {
        self.groups
            .values()
            .chain(&self.default)
            .chain(&self.total)
            .any(|allowance| allowance.cost.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices(text: &str) -> Prices {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn energy_without_measurement_has_no_cost() {
        let prices = prices("{currency: EUR, gpu_hour: 2, kwh: 0.5}");
        // 4 kWh at 0.5 cost 2.
        assert_eq!(prices.energy(3.0, Some(4.0)), Some(2.0));
        assert_eq!(
            (prices.energy(3.0, None), prices.energy(0.0, None)),
            (None, Some(0.0))
        );
        let negative = Prices {
            kwh: -1.0,
            ..prices
        };
        assert_eq!(
            negative.problem().as_deref(),
            Some("`kwh` is -1; prices cannot be negative")
        );
    }

    #[test]
    fn the_most_specific_price_wins() {
        let prices = prices(
            "{a100-80g: 1.8, h100-80g: 3, gpu_hour: 1, currency: EUR, pools: {spot: 0.9, \
             lab: {h100: 2, gpu_hour: 0.5}, batch: {a100: 1.2}}}",
        );
        assert_eq!(prices.problem(), None);
        let price = |gpu_type, pool| prices.gpu_hour(gpu_type, pool);
        for (gpu_type, pool, expected) in [
            (Some("NVIDIA-A100-SXM4-80GB"), None, Some(1.8)),
            (Some("h100-80g"), Some("other"), Some(3.0)),
            (Some("h100-80g"), Some("spot"), Some(0.9)),
            (Some("h100-80g"), Some("lab"), Some(2.0)),
            (Some("a100-80g"), Some("lab"), Some(0.5)),
            // The pool has a price only for A100, so the price of the type counts.
            (Some("h100-80g"), Some("batch"), Some(3.0)),
            (Some("l4"), None, Some(1.0)),
            // The price depends on the type, which is unknown.
            (None, None, None),
            (None, Some("spot"), Some(0.9)),
            (None, Some("lab"), None),
        ] {
            assert_eq!(price(gpu_type, pool), expected, "{gpu_type:?} {pool:?}");
        }
    }

    #[test]
    fn a_type_of_unknown_size_has_a_price_only_if_the_sizes_agree() {
        let differing = prices("{a100-40g: 1, a100-80g: 2, gpu_hour: 5}");
        assert_eq!(differing.gpu_hour(Some("a100"), None), None);
        let equal = prices("{a100-40g: 2, a100-80g: 2}");
        assert_eq!(equal.gpu_hour(Some("a100"), None), Some(2.0));
        assert_eq!(equal.gpu_hour(Some("h100"), None), None);
    }

    #[test]
    fn one_price_needs_no_type() {
        let price = |text: &str| prices(text).gpu_hour(None, None);
        assert_eq!(price("gpu_hour: 1.8"), Some(1.8));
        // Only energy has a price.
        assert_eq!(price("kwh: 0.25"), Some(0.0));
        assert_eq!(price("gpu_types: {gaudi: 2}"), None);
    }

    #[test]
    fn misspelled_keys_and_types_are_refused() {
        for text in ["gpu_hours: 2", "currencies: EUR", "pools: {a: {b100: x}}"] {
            assert!(serde_saphyr::from_str::<Prices>(text).is_err(), "{text}");
        }
        let problem = prices("gpu_types: {nvidia: 2}").problem();
        assert_eq!(problem.as_deref(), Some("`nvidia` is not a GPU type"));
        let problem = prices("pools: {spot: -2}").problem();
        assert_eq!(
            problem.as_deref(),
            Some("`gpu_hour` is -2; prices cannot be negative")
        );
    }

    #[test]
    fn group_uses_its_budget_or_the_default() {
        let text = "groups: {a: {gpu_hours: 10}}\ndefault: {cost: 5}\n";
        let budget: Budget = serde_saphyr::from_str(text).unwrap();
        assert_eq!(budget.problem(), None);
        assert_eq!(
            budget.for_group(Some("a")),
            Some(Allowance {
                gpu_hours: Some(10.0),
                cost: None
            })
        );
        assert_eq!(
            budget.for_group(None),
            Some(Allowance {
                gpu_hours: None,
                cost: Some(5.0)
            })
        );
        let empty: Budget = serde_saphyr::from_str("groups: {a: {}}\n").unwrap();
        assert!(empty.problem().is_some() && budget.has_costs());
    }
}
