//! Reads files with prices and budgets.

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::cli::history::report::Report;
use gpuctl_core::error::Error;
use gpuctl_core::model::values::prices::{Budget, Prices};
use gpuctl_core::stats::history::gpu_hours::GpuHours;
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
            .map(|path| {
                read(
                    path,
                    "prices",
                    Prices::problem,
                    "currency, gpu_hour and kwh",
                )
            })
            .transpose()?;
        let keys = "groups, default and total, each with gpu_hours and cost";
        let budget = args
            .budget
            .as_deref()
            .map(|path| read(path, "a budget", Budget::problem, keys))
            .transpose()?;
        if budget.as_ref().is_some_and(Budget::has_costs) && prices.is_none() {
            return Err(
                Error::usage("the budget limits costs, but no prices are set")
                    .hint("--prices FILE"),
            );
        }
        Ok(Self { prices, budget })
    }

    /// Computes the cost of GPU-hours. Returns `None` if energy has a price but was not measured,
    /// or if a share's fraction of a GPU is unknown.
    pub(super) fn of_gpu_hours(&self, gpu_hours: &GpuHours) -> Option<f64> {
        self.prices.as_ref()?.cost(
            gpu_hours.held + gpu_hours.part_equivalent()?,
            gpu_hours.energy,
        )
    }
}

/// Reads a file of `kind`. Errors list the valid `keys`.
fn read<T: DeserializeOwned>(
    path: &Path,
    kind: &str,
    problem: impl Fn(&T) -> Option<&'static str>,
    keys: &str,
) -> Result<T, Error> {
    let text = files::read_text(path).map_err(Error::usage)?;
    let value: T = serde_saphyr::from_str(&text).map_err(|error| {
        Error::usage(format!(
            "{} has no {}",
            path.display(),
            kind.trim_start_matches("a ")
        ))
        .cause(error.to_string())
        .hint(keys)
    })?;
    match problem(&value) {
        Some(problem) => Err(Error::usage(format!("{}: {problem}", path.display())).hint(keys)),
        None => Ok(value),
    }
}
