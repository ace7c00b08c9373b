//! Recording rules, for stores of many GPUs: what is asked of every device for a whole hour is
//! written down each minute by Prometheus itself. Only what stays the same number is recorded: a
//! maximum of maxima is one, a mean of means is not.

use std::fmt::Write as _;

use crate::model::Series;

use super::dialect::{FATAL_XIDS, Quantity, metrics};

/// What says that the rules ran where devices tell their errors, and for which codes.
const MARK: &str = "gpuctl:fatal_xid:codes";
/// Samples of an hour at which it counts as recorded: one a minute, but for a restart of
/// Prometheus.
const ENOUGH: u32 = 57;

/// Returns the name of the series that has the fatal errors of a metric.
pub(crate) fn name_of(metric: &str) -> String {
    format!("gpuctl:{metric}:fatal")
}

/// Returns the devices whose error is fatal, of those that a selector means.
pub(crate) fn fatal(selector: &str) -> String {
    FATAL_XIDS
        .map(|code| format!("{selector} == {code}"))
        .join(" or ")
}

/// Returns the codes in one label, by which rules of another version are not taken for these.
fn codes() -> String {
    FATAL_XIDS.map(|code| code.to_string()).join(",")
}

/// Asks whether the rules ran for all of the last hour; without an answer they did not.
pub fn is_recorded() -> String {
    format!(
        "count_over_time({MARK}{{codes=\"{}\"}}[1h]) >= {ENOUGH}",
        codes()
    )
}

/// Returns true for an answer to [`is_recorded`].
pub(crate) fn is_mark(series: &Series) -> bool {
    series.label("codes").is_some()
}

/// Returns the rules as a file of Prometheus.
pub fn rules() -> String {
    let mut text = String::from(
        "# What gpuctl asks of every device for the last hour, recorded each minute. For `rule_files` of the Prometheus that scrapes the\n\
         # exporters, or below `spec` of a PrometheusRule. gpuctl uses them by itself from an hour after they were loaded.\n\
         groups:\n  - name: gpuctl\n    interval: 1m\n    rules:\n",
    );
    let told: Vec<&str> = metrics()
        .filter(|metric| metric.quantity == Quantity::Xid)
        .map(|metric| metric.name)
        .collect();
    for metric in &told {
        let _ = writeln!(
            text,
            "      - record: {}\n        expr: {}",
            name_of(metric),
            fatal(metric)
        );
    }
    // A Prometheus that scrapes no devices, and has been given the rules, must not speak for the
    // one that does.
    let (any, codes) = (told.join(" or "), codes());
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
    fn rules_are_yaml_with_promql() {
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
