//! Recording rules for stores with many GPUs. Once a minute, Prometheus evaluates what gpuctl would
//! otherwise query for every device over an hour. Only values that aggregate exactly are recorded:
//! the maximum of maxima is correct, but the mean of means is not.

use std::fmt::Write as _;

use crate::model::Series;

use super::dialect::{Quantity, metrics};
use super::xid;

/// Series that proves that the rules ran where devices report errors, with the codes for which they
/// ran.
const MARK: &str = "gpuctl:fatal_xid:codes";
/// Minimum number of samples for an hour to count as recorded. There is one sample per minute, and
/// restarting Prometheus loses a few.
const ENOUGH: u32 = 57;

/// Returns the name of the recorded series for an error metric.
pub(crate) fn name_of(metric: &str) -> String {
    format!("gpuctl:{metric}:fatal")
}

/// Queries whether the rules ran during the whole last hour. The response is empty if they did not.
pub fn is_recorded() -> String {
    format!(
        "count_over_time({MARK}{{codes=\"{}\"}}[1h]) >= {ENOUGH}",
        xid::fatal_codes()
    )
}

/// Returns true if a series is a result of [`is_recorded`].
pub(crate) fn is_mark(series: &Series) -> bool {
    series.label("codes").is_some()
}

/// Renders the rules as a Prometheus rule file.
pub fn rules() -> String {
    let mut text = String::from(
        "# Records once a minute what gpuctl otherwise queries for every device over an hour. Put it into the `rule_files` of the Prometheus\n\
         # that scrapes the exporters, or into the `spec` of a PrometheusRule. gpuctl uses the rules an hour after they are loaded.\n\
         groups:\n  - name: gpuctl\n    interval: 1m\n    rules:\n",
    );
    let names: Vec<&str> = metrics()
        .filter(|metric| metric.quantity == Quantity::Xid)
        .map(|metric| metric.name)
        .collect();
    for metric in &names {
        let _ = writeln!(
            text,
            "      - record: {}\n        expr: {}",
            name_of(metric),
            xid::fatal_filter(metric)
        );
    }
    // The rule must yield nothing in a Prometheus that scrapes no devices. Otherwise its mark would
    // vouch for devices that other servers scrape.
    let (any, codes) = (names.join(" or "), xid::fatal_codes());
    let _ = writeln!(
        text,
        "      - record: {MARK}\n        expr: group({any})\n        labels:\n          codes: \"{codes}\""
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_valid_yaml_and_promql() {
        let document: serde_json::Value = serde_saphyr::from_str(&rules()).unwrap();
        let rules = document["groups"][0]["rules"].as_array().unwrap();
        let expressions: Vec<&str> = rules
            .iter()
            .map(|rule| rule["expr"].as_str().unwrap())
            .collect();
        assert_eq!(rules.len(), 2);
        for expression in expressions.into_iter().chain([is_recorded().as_str()]) {
            promql_parser::parser::parse(expression)
                .unwrap_or_else(|error| panic!("{error}: {expression}"));
        }
        assert_eq!(rules[0]["record"], "gpuctl:DCGM_FI_DEV_XID_ERRORS:fatal");
        assert_eq!(rules[1]["expr"], "group(DCGM_FI_DEV_XID_ERRORS)");
        let codes = xid::fatal_codes();
        assert_eq!(rules[1]["labels"]["codes"], codes.as_str());
    }
}
