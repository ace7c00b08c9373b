//! Recording rules for stores with many GPUs: Prometheus evaluates once a minute what gpuctl would
//! otherwise query for every device over a whole hour. Only values that aggregate exactly are
//! recorded: a maximum of maxima is correct, a mean of means is not.

use std::fmt::Write as _;

use crate::model::Series;

use super::dialect::{FATAL_XIDS, Quantity, metrics};

/// Series that proves that the rules ran where devices report errors, and for which codes.
const MARK: &str = "gpuctl:fatal_xid:codes";
/// Fewest samples of an hour that counts as recorded: one a minute, minus some for a restart of
/// Prometheus.
const ENOUGH: u32 = 57;

/// Names the series with the fatal errors of a metric.
pub(crate) fn name_of(metric: &str) -> String {
    format!("gpuctl:{metric}:fatal")
}

/// Filters a selector to the devices whose current error is fatal.
pub(crate) fn fatal(selector: &str) -> String {
    FATAL_XIDS
        .map(|code| format!("{selector} == {code}"))
        .join(" or ")
}

/// Joins the codes for one label, so that rules of another version are not mistaken for these.
fn codes() -> String {
    FATAL_XIDS.map(|code| code.to_string()).join(",")
}

/// Queries whether the rules ran for the whole last hour. An empty result means no.
pub fn is_recorded() -> String {
    format!(
        "count_over_time({MARK}{{codes=\"{}\"}}[1h]) >= {ENOUGH}",
        codes()
    )
}

/// Whether a series is a result of [`is_recorded`].
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
            fatal(metric)
        );
    }
    // The rule must yield nothing on a Prometheus that loads the rules but scrapes no devices, or
    // its mark would vouch for another server's devices.
    let (any, codes) = (names.join(" or "), codes());
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
        assert_eq!(rules[1]["labels"]["codes"], "48,64,74,79,95,119,120,140");
    }
}
