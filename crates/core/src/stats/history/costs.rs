//! Computes the cost of GPU-hours whose price depends on the GPU type and the pool.

use std::collections::{BTreeMap, BTreeSet};

use super::capacity_hours::allocated;
use super::gpu_hours::GpuHours;
use crate::model::values::prices::Prices;
use crate::stats::exporters::node_traits::NodeTraits;

/// GPU-hours of a group, by GPU type and pool.
pub type HoursByTraits = BTreeMap<NodeTraits, GpuHours>;

/// Sums the GPU-hours of all types and pools.
pub fn sum(hours: &HoursByTraits) -> GpuHours {
    let mut sum = GpuHours::default();
    hours.values().cloned().for_each(|hours| sum.add(hours));
    sum
}

/// Computes the cost of a group. Returns `None` if a price is missing, if energy has a price but
/// was not measured, or if a slice's fraction of a GPU is unknown.
pub fn cost(prices: &Prices, hours: &HoursByTraits) -> Option<f64> {
    let cost_of = |(traits, hours): (&NodeTraits, &GpuHours)| {
        let gpu_hours = allocated(hours)?;
        if gpu_hours <= 0.0 {
            return Some(0.0);
        }
        let price = prices.gpu_hour(traits.gpu_type.as_deref(), traits.pool.as_deref())?;
        Some(gpu_hours * price + prices.energy(gpu_hours, hours.energy)?)
    };
    hours.iter().map(cost_of).sum()
}

/// Returns the types and pools of held GPUs without a price.
pub fn without_price<'h>(
    prices: &Prices,
    groups: impl Iterator<Item = &'h HoursByTraits>,
) -> BTreeSet<&'h NodeTraits> {
    let has_no_price = |(traits, hours): &(&NodeTraits, &GpuHours)| {
        let price = prices.gpu_hour(traits.gpu_type.as_deref(), traits.pool.as_deref());
        price.is_none() && (hours.held > 0.0 || !hours.parts.is_empty())
    };
    let all = groups.flatten().filter(has_no_price);
    all.map(|(traits, _)| traits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traits(gpu_type: Option<&str>, pool: Option<&str>) -> NodeTraits {
        NodeTraits {
            gpu_type: gpu_type.map(ToOwned::to_owned),
            pool: pool.map(ToOwned::to_owned),
        }
    }

    fn prices(text: &str) -> Prices {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn each_type_and_pool_has_its_price() {
        let hours = HoursByTraits::from([
            (
                traits(Some("a100-80g"), None),
                GpuHours::of_one_gpu(10.0, None),
            ),
            (
                traits(Some("h100-80g"), None),
                GpuHours::of_one_gpu(4.0, None),
            ),
            (
                traits(Some("h100-80g"), Some("spot")),
                GpuHours::of_one_gpu(2.0, None),
            ),
            // A pod that waits holds nothing, so its unknown type has no price.
            (traits(None, None), GpuHours::default()),
        ]);
        let typed = prices("{a100-80g: 1.8, h100-80g: 3, pools: {spot: 0.5}}");
        // 10 * 1.8 + 4 * 3 + 2 * 0.5
        assert_eq!(cost(&typed, &hours), Some(31.0));
        assert!(without_price(&typed, [&hours].into_iter()).is_empty());
        // 16 * 2
        assert_eq!(cost(&prices("gpu_hour: 2"), &hours), Some(32.0));
        let partial = prices("a100-80g: 1.8");
        assert_eq!(cost(&partial, &hours), None);
        let missing = without_price(&partial, [&hours].into_iter());
        let (plain, spot) = (
            traits(Some("h100-80g"), None),
            traits(Some("h100-80g"), Some("spot")),
        );
        assert_eq!(missing.into_iter().collect::<Vec<_>>(), [&plain, &spot]);
        assert_eq!(sum(&hours).held, 16.0);
    }

    #[test]
    fn energy_that_was_not_measured_for_a_type_makes_the_cost_unknown() {
        let measured = |hours: f64, energy: Option<f64>| {
            let mut hours = GpuHours::of_one_gpu(hours, None);
            hours.energy = energy;
            hours
        };
        let with_energy = prices("{gpu_hour: 1, kwh: 0.5}");
        let mut hours = HoursByTraits::from([
            (traits(Some("a100-80g"), None), measured(10.0, Some(4.0))),
            (traits(Some("h100-80g"), None), measured(1.0, Some(2.0))),
        ]);
        // 11 GPU-hours at 1, and 6 kWh at 0.5.
        assert_eq!(cost(&with_energy, &hours), Some(14.0));
        hours.insert(traits(Some("l4"), None), measured(1.0, None));
        assert_eq!(cost(&with_energy, &hours), None);
    }
}
