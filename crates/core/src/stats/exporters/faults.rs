//! Builds queries that find faulty devices: fatal errors within the last hour, failed row remapping
//! and bad health. A device reports only its last error, which the next error or a reset replaces,
//! so errors are read over an hour. Healthy devices return no series.

use std::collections::BTreeSet;

use crate::model::Series;

use super::dialect::{Quantity, metric_of, uuid_labels};
use super::query::{keys, names, quoted};
use super::recorded;
use super::xid;
use crate::model::values::whole;

/// Maximum number of devices in a narrowed query. It names each device once per range of fatal
/// codes, and stores limit a query to about 16,000 characters.
const MOST_NAMED: usize = 10;

/// Builds the query for all faults. Of a device's errors, it returns only the highest code. With
/// recording rules, it reads a few series instead of the samples of all devices.
pub fn query(is_recorded: bool) -> String {
    let mut queries = Vec::new();
    for name in names(&[Quantity::Xid]) {
        let lately = match is_recorded {
            true => {
                queries.push(with_fault(&format!("({name} > 0)"), name, "now"));
                format!("max_over_time({}[1h])", recorded::name_of(name))
            }
            false => format!("(max_over_time({name}[1h]) > 0)"),
        };
        queries.push(with_fault(&with_name(&lately, name), name, "lately"));
    }
    queries.extend(
        names(&[Quantity::RowRemapFailure])
            .iter()
            .map(|name| with_fault(&format!("({name} != 0)"), name, "now")),
    );
    // 0 means that the device has no fabric, and 1 that the fabric is healthy.
    queries.extend(
        names(&[Quantity::FabricHealth])
            .iter()
            .map(|name| with_fault(&format!("({name} > 1)"), name, "now")),
    );
    // Several series may report the health of a device. One healthy series is enough.
    let ill = |name: &&str| {
        with_fault(
            &format!("(max by (__name__,{}) ({name}) != 1)", keys()),
            name,
            "now",
        )
    };
    queries.extend(names(&[Quantity::Health]).iter().map(ill));
    per_device(&queries)
}

/// Selects the series of XID errors.
pub fn errors(answer: &[Series]) -> Vec<&Series> {
    answer.iter().filter(|series| is_error(series)).collect()
}

fn is_error(series: &Series) -> bool {
    metric_of(series.name()).is_some_and(|metric| metric.quantity == Quantity::Xid)
}

/// Returns true if a series shows a faulty device. Non-fatal errors do not count, because they may
/// be an hour old and the device may no longer exist.
pub fn counts(series: &Series) -> bool {
    !is_error(series)
        || series
            .last()
            .is_some_and(|point| xid::is_fatal(whole::to_u32(point.value)))
}

/// Builds the query for fatal errors that a higher, non-fatal code of the same device hides in the
/// response to [`query`]. Returns `None` if no code can be hidden.
pub fn hidden(answer: &[Series]) -> Option<String> {
    let lowest = f64::from(xid::lowest_fatal());
    let hides = |series: &&Series| {
        let value = series.last().map_or(0.0, |point| point.value);
        is_error(series) && value > lowest && !xid::is_fatal(whole::to_u32(value))
    };
    let hiding: Vec<&Series> = answer.iter().filter(hides).collect();
    if hiding.is_empty() {
        return None;
    }
    // Narrow the query by a UUID label only if all of these series have it.
    let uuids = |label: &str| {
        hiding
            .iter()
            .map(|series| series.label(label))
            .collect::<Option<BTreeSet<&str>>>()
    };
    let identified = uuid_labels()
        .find_map(|label| Some((label, uuids(label)?)))
        .filter(|(_, uuids)| uuids.len() <= MOST_NAMED);
    let of_devices = identified.map_or_else(String::new, |(label, uuids)| {
        let uuids: Vec<String> = uuids.into_iter().map(regex::escape).collect();
        format!("{{{label}=~{}}}", quoted(&uuids.join("|")))
    });
    let metrics: BTreeSet<&str> = hiding.iter().map(|series| series.name()).collect();
    let series_of = |name: &&str| {
        // The filter returns an instant vector, so `max_over_time` needs a subquery.
        let fatal = xid::fatal_filter(&format!("{name}{of_devices}"));
        with_fault(
            &with_name(&format!("max_over_time(({fatal})[1h:1m])"), name),
            name,
            "lately",
        )
    };
    Some(per_device(
        &metrics.iter().map(series_of).collect::<Vec<_>>(),
    ))
}

/// Restores the metric name that a function removed.
fn with_name(values: &str, name: &str) -> String {
    format!(r#"label_replace({values}, "__name__", "{name}", "", "")"#)
}

/// Adds a label that distinguishes the faults of one device. Otherwise `or` would drop a series if
/// an earlier operand has equal labels, even with a different metric name, and a higher code could
/// hide a fatal one.
fn with_fault(series: &str, name: &str, condition: &str) -> String {
    format!(r#"label_replace({series}, "fault", "{name} {condition}", "", "")"#)
}

fn per_device(queries: &[String]) -> String {
    format!(
        "max by (__name__,fault,{}) ({})",
        keys(),
        queries.join(" or ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Point;

    fn error(uuid: Option<&str>, code: f64) -> Series {
        let labels = [("__name__", "DCGM_FI_DEV_XID_ERRORS")]
            .into_iter()
            .chain(uuid.map(|uuid| ("UUID", uuid)));
        let labels = labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Series {
            labels,
            points: vec![Point { at: 0, value: code }],
        }
    }

    #[test]
    fn only_a_higher_harmless_xid_hides_a_fatal_one() {
        let seen = [
            error(Some("GPU-a"), 79.0),
            error(Some("GPU-b"), 13.0),
            error(Some("GPU-c"), 0.0),
        ];
        assert_eq!(hidden(&seen), None);
        assert_eq!(seen.map(|series| counts(&series)), [true, false, false]);
        // 94 is a contained, non-fatal error. An impossible value hides all earlier codes.
        let hiding = hidden(&[
            error(Some("GPU-a"), 94.0),
            error(Some("GPU-b"), 2_147_483_632.0),
            error(Some("GPU-c"), 79.0),
        ])
        .unwrap();
        assert!(
            hiding.contains(r#" DCGM_FI_DEV_XID_ERRORS{UUID=~"GPU\\-a|GPU\\-b"} == 48 or"#),
            "{hiding}"
        );
        let nameless = hidden(&[error(None, 94.0), error(Some("GPU-b"), 94.0)]).unwrap();
        assert!(
            nameless.contains(" DCGM_FI_DEV_XID_ERRORS == 48 or"),
            "{nameless}"
        );
        for query in [query(false), query(true), hiding, nameless] {
            promql_parser::parser::parse(&query).unwrap_or_else(|error| panic!("{error}: {query}"));
        }
    }
}
