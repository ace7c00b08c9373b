//! Prices of GPU-hours and energy, and budgets of groups, as read from the files of `report
//! --prices` and `report --budget`.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    #[serde(default)]
    pub currency: String,
    #[serde(default)]
    pub gpu_hour: f64,
    #[serde(default)]
    pub kwh: f64,
}

impl Prices {
    /// Returns why the prices are invalid, if they are.
    pub fn problem(&self) -> Option<&'static str> {
        let fine = |price: f64| price.is_finite() && price >= 0.0;
        (!(fine(self.gpu_hour) && fine(self.kwh))).then_some("prices cannot be negative")
    }

    /// Computes the cost of GPU-hours and kWh, or returns `None` if energy has a price but was not
    /// measured.
    pub fn cost(&self, gpu_hours: f64, kwh: Option<f64>) -> Option<f64> {
        // Zero GPU-hours used no energy, so ignore a missing measurement.
        let energy = if self.kwh > 0.0 && gpu_hours > 0.0 {
            kwh?
        } else {
            0.0
        };
        Some(gpu_hours * self.gpu_hour + energy * self.kwh)
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
    pub fn problem(&self) -> Option<&'static str> {
        let allowances = || self.groups.values().chain(&self.default).chain(&self.total);
        let amounts = || {
            allowances()
                .flat_map(|allowance| [allowance.gpu_hours, allowance.cost])
                .flatten()
        };
        if allowances().any(|allowance| allowance.gpu_hours.is_none() && allowance.cost.is_none()) {
            return Some("a budget needs gpu_hours, cost or both");
        }
        (!amounts().all(|amount| amount.is_finite() && amount >= 0.0))
            .then_some("a budget cannot be negative")
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

    #[test]
    fn energy_without_measurement_has_no_cost() {
        let prices = Prices {
            currency: "EUR".to_owned(),
            gpu_hour: 2.0,
            kwh: 0.5,
        };
        assert_eq!(prices.cost(3.0, Some(4.0)), Some(8.0));
        assert_eq!(
            (prices.cost(3.0, None), prices.cost(0.0, None)),
            (None, Some(0.0))
        );
        assert!(
            Prices {
                kwh: -1.0,
                ..prices
            }
            .problem()
            .is_some()
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
