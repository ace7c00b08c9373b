//! Reads files with prices and budgets.

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::cli::history::report::Report;
use gpuctl_core::error::Error;
use gpuctl_core::model::values::prices::{Budget, PRICE_KEYS, Prices};
use gpuctl_core::stats::exporters::node_traits::NodeTraits;
use gpuctl_core::stats::history::costs::{self, HoursByTraits};
use gpuctl_local::files;

/// Prices and budgets from the user's files.
pub(super) struct Costs {
    pub prices: Option<Prices>,
    pub budget: Option<Budget>,
}

impl Costs {
    pub(super) fn read(args: &Report) -> Result<Self, Error> {
        let prices = args
            .prices
            .as_deref()
            .map(|path| read(path, Prices::problem, PRICE_KEYS))
            .transpose()?;
        let keys = "groups, default and total, each with gpu_hours and cost";
        let budget = args
            .budget
            .as_deref()
            .map(|path| read(path, Budget::problem, keys))
            .transpose()?;
        if budget.as_ref().is_some_and(Budget::has_costs) && prices.is_none() {
            return Err(
                Error::usage("the budget limits costs, but no prices are set")
                    .hint("--prices FILE"),
            );
        }
        Ok(Self { prices, budget })
    }

    /// Computes the cost of a group. Returns `None` without prices, or if a part of the cost is
    /// unknown.
    pub(super) fn of_hours(&self, hours: &HoursByTraits) -> Option<f64> {
        costs::cost(self.prices.as_ref()?, hours)
    }

    /// Computes the cost of all groups together.
    pub(super) fn of_all<'h>(
        &self,
        mut groups: impl Iterator<Item = &'h HoursByTraits>,
    ) -> Option<f64> {
        let prices = self.prices.as_ref()?;
        groups.try_fold(0.0, |sum, hours| Some(sum + costs::cost(prices, hours)?))
    }

    /// Describes the GPUs without a price, if there are any.
    pub(super) fn without_price<'h>(
        &self,
        groups: impl Iterator<Item = &'h HoursByTraits>,
    ) -> Option<String> {
        let missing = costs::without_price(self.prices.as_ref()?, groups);
        let name = |traits: &NodeTraits| {
            let gpu_type = traits.gpu_type.as_deref().unwrap_or("unknown type");
            match &traits.pool {
                Some(pool) => format!("{gpu_type} in pool {pool}"),
                None => gpu_type.to_owned(),
            }
        };
        let names: Vec<String> = missing.into_iter().map(name).collect();
        (!names.is_empty()).then(|| {
            format!(
                "no price is set for these GPUs: {}; the cost of groups that held them is unknown",
                names.join(", ")
            )
        })
    }
}

/// Reads a file. Errors list the valid `keys`.
fn read<T: DeserializeOwned>(
    path: &Path,
    problem: impl Fn(&T) -> Option<String>,
    keys: &str,
) -> Result<T, Error> {
    let text = files::read_text(path).map_err(Error::usage)?;
    let value: T = serde_saphyr::from_str(&text).map_err(|error| {
        // The position is at the front, as in errors of other files.
        let message = error.without_snippet().to_string();
        let (position, suffix) = error.location().map_or_else(Default::default, |location| {
            let (line, column) = (location.line(), location.column());
            (
                format!(":{line}:{column}"),
                format!(" at line {line}, column {column}"),
            )
        });
        let message = message.strip_suffix(&suffix).unwrap_or(&message);
        let place = path.display();
        Error::usage(format!("{place}{position}: {message}")).hint(hint(keys))
    })?;
    match problem(&value) {
        Some(problem) => {
            Err(Error::usage(format!("{}: {problem}", path.display())).hint(hint(keys)))
        }
        None => Ok(value),
    }
}

fn hint(keys: &str) -> String {
    format!("the file may contain: {keys}")
}
