//! Finds out when a device reported an XID error. Exporters repeat the last code until the driver
//! is loaded again (DCGM issue 277), so a code that does not change says nothing about its time.

use std::collections::BTreeMap;

use super::dialect::{Quantity, metric_of, uuid_labels};
use super::identity::{IdentityReader, SeriesDevice};
use super::query::{names, quoted};
use super::xid;
use crate::model::Series;
use crate::model::values::whole;

/// An XID error of a device within a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XidReport {
    pub code: u32,
    /// Time of the first sample with this code, in Unix milliseconds.
    pub at: i64,
    /// False if the device has no sample before the first one with this code. The error may then
    /// be older.
    pub is_dated: bool,
}

/// Samples of one exporter, ordered by time.
type Samples = Vec<(i64, u32)>;

/// Maximum length of a query's list of UUIDs. Stores limit a query to about 16,000 characters.
const LONGEST: usize = 12_000;

/// Queries all XID samples of the devices of these series in the last `seconds`. Devices without a
/// UUID are queried by the samples that are not zero. Returns one or several queries.
pub fn queries(devices: &[&Series], seconds: i64) -> Vec<String> {
    let metrics = names(&[Quantity::Xid]);
    let labeled = uuid_labels().find_map(|label| {
        let uuids = devices.iter().map(|series| series.label(label));
        Some((label, uuids.collect::<Option<Vec<&str>>>()?))
    });
    let Some((label, mut uuids)) = labeled else {
        let nonzero = |name: &&str| format!("({name} > 0)[{seconds}s:1m]");
        return metrics.iter().map(nonzero).collect();
    };
    uuids.sort_unstable();
    uuids.dedup();
    let mut patterns: Vec<String> = Vec::new();
    for uuid in uuids.into_iter().map(regex::escape) {
        match patterns.last_mut() {
            Some(pattern) if pattern.len() + uuid.len() < LONGEST => {
                pattern.push('|');
                pattern.push_str(&uuid);
            }
            _ => patterns.push(uuid),
        }
    }
    let query =
        |name: &str, pattern: &str| format!("{name}{{{label}=~{}}}[{seconds}s]", quoted(pattern));
    patterns
        .iter()
        .flat_map(|pattern| metrics.iter().map(move |name| query(name, pattern)))
        .collect()
}

/// Returns the errors that each device reported in the window `[start, end]`, in Unix milliseconds.
/// `series` are the samples since before the window. Labels of pods may change within it.
pub fn reports(
    series: &[Series],
    reader: &IdentityReader<'_>,
    start: i64,
    end: i64,
) -> BTreeMap<SeriesDevice, Vec<XidReport>> {
    // Several exporters may report a device, and one of them may not see its errors.
    let mut devices: BTreeMap<SeriesDevice, BTreeMap<(String, String), Samples>> = BTreeMap::new();
    for one in series {
        let Some(device) = reader.device(one).map(SeriesDevice::without_slice) else {
            continue;
        };
        let label = |name| one.label(name).unwrap_or_default().to_owned();
        let samples = devices
            .entry(device)
            .or_default()
            .entry((label("job"), label("instance")))
            .or_default();
        samples.extend(one.points.iter().filter_map(|point| {
            let is_code = point.value.is_finite() && (0.0..100_000.0).contains(&point.value);
            is_code.then(|| (point.at, whole::to_u32(point.value)))
        }));
    }
    devices
        .into_iter()
        .map(|(device, exporters)| {
            (
                device,
                of_device(exporters.into_values().collect(), start, end),
            )
        })
        .collect()
}

/// Replaces the code of a faulty device by the highest fatal one that it reported in the window of
/// `reports`. Returns `None` if all of its fatal codes are older, and the series itself if it is
/// about something else, or if the device has no samples in `reports`.
pub fn recent_fault(
    mut series: Series,
    reader: &IdentityReader<'_>,
    reports: &BTreeMap<SeriesDevice, Vec<XidReport>>,
) -> Option<Series> {
    let is_error = metric_of(series.name()).is_some_and(|metric| metric.quantity == Quantity::Xid);
    let device = reader.device(&series).map(SeriesDevice::without_slice);
    let Some(reports) = device
        .filter(|_| is_error)
        .and_then(|key| reports.get(&key))
    else {
        return Some(series);
    };
    let codes = reports.iter().map(|report| report.code);
    let code = codes.filter(|code| xid::is_fatal(*code)).max()?;
    series
        .points
        .iter_mut()
        .for_each(|point| point.value = f64::from(code));
    Some(series)
}

fn of_device(mut exporters: Vec<Samples>, start: i64, end: i64) -> Vec<XidReport> {
    exporters
        .iter_mut()
        .for_each(|samples| samples.sort_unstable());
    let mut reports: Vec<XidReport> = Vec::new();
    for samples in &exporters {
        let mut previous: Option<u32> = None;
        for &(at, code) in samples {
            let before = previous
                .replace(code)
                .or_else(|| last_before(&exporters, at));
            if code != 0 && before != Some(code) && (start..=end).contains(&at) {
                reports.push(XidReport {
                    code,
                    at,
                    is_dated: before.is_some(),
                });
            }
        }
    }
    reports.sort_by_key(|report| report.at);
    reports
}

/// The last code that any exporter reported before this time. An exporter that restarts reports the
/// old code under other labels.
fn last_before(exporters: &[Samples], at: i64) -> Option<u32> {
    let earlier = exporters
        .iter()
        .filter_map(|samples| samples.iter().rev().find(|(time, _)| *time < at));
    earlier.max_by_key(|(time, _)| *time).map(|(_, code)| *code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Point;
    use crate::stats::exporters::identity::ApiFacts;

    const METRIC: &str = "DCGM_FI_DEV_XID_ERRORS";
    /// The window of the tests, in milliseconds.
    const START: i64 = 1000;
    const END: i64 = 2000;

    fn series(labels: &[(&str, &str)], points: &[(i64, f64)]) -> Series {
        let all = [
            ("__name__", METRIC),
            ("UUID", "GPU-a"),
            ("gpu", "3"),
            ("Hostname", "n"),
        ];
        Series {
            labels: all
                .iter()
                .chain(labels)
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            points: points
                .iter()
                .map(|(at, value)| Point {
                    at: *at,
                    value: *value,
                })
                .collect(),
        }
    }

    fn found(all: &[Series]) -> Vec<(u32, i64, bool)> {
        let facts = ApiFacts::default();
        let reader = IdentityReader::new(&facts, all);
        reports(all, &reader, START, END)
            .into_values()
            .flatten()
            .map(|report| (report.code, report.at, report.is_dated))
            .collect()
    }

    #[test]
    fn only_changes_within_the_window_count() {
        let constant = series(&[], &[(0, 74.0), (900, 74.0), (1500, 74.0)]);
        assert_eq!(found(&[constant]), []);
        let changed = series(&[], &[(900, 0.0), (1500, 79.0), (1600, 79.0)]);
        assert_eq!(found(&[changed]), [(79, 1500, true)]);
        let before = series(&[], &[(800, 0.0), (900, 79.0), (1500, 79.0)]);
        assert_eq!(found(&[before]), []);
        let after = series(&[], &[(1500, 0.0), (2001, 79.0)]);
        assert_eq!(found(&[after]), []);
        // The driver was loaded again, and the error came back.
        let again = series(&[], &[(900, 79.0), (1200, 0.0), (1500, 79.0)]);
        assert_eq!(found(&[again]), [(79, 1500, true)]);
        let second = series(&[], &[(900, 48.0), (1500, 13.0), (1600, 1e19)]);
        assert_eq!(found(&[second]), [(13, 1500, true)]);
    }

    #[test]
    fn code_of_an_earlier_pod_stays_old_under_the_labels_of_the_next() {
        let first = series(
            &[("pod", "a"), ("instance", "i")],
            &[(0, 74.0), (900, 74.0)],
        );
        let second = series(
            &[("pod", "b"), ("instance", "i")],
            &[(1100, 74.0), (1500, 74.0)],
        );
        assert_eq!(found(&[second, first]), []);
    }

    #[test]
    fn restarted_exporter_does_not_renew_a_code() {
        let old = series(&[("instance", "i")], &[(0, 74.0), (900, 74.0)]);
        let new = series(&[("instance", "j")], &[(1100, 74.0)]);
        assert_eq!(found(&[old.clone(), new]), []);
        // A second exporter that does not see errors changes nothing.
        let blind = series(&[("instance", "k")], &[(0, 0.0), (950, 0.0), (1400, 0.0)]);
        let seen = series(
            &[("instance", "i")],
            &[(0, 74.0), (900, 74.0), (1300, 74.0)],
        );
        assert_eq!(found(&[blind, seen]), []);
    }

    #[test]
    fn code_without_earlier_samples_is_undated() {
        let young = series(&[], &[(1500, 79.0)]);
        assert_eq!(found(std::slice::from_ref(&young)), [(79, 1500, false)]);
        let facts = ApiFacts::default();
        let all = [young];
        let reader = IdentityReader::new(&facts, &all);
        let known = reports(&all, &reader, START, END);
        let code = |series: &Series, known: &BTreeMap<SeriesDevice, Vec<XidReport>>| {
            recent_fault(series.clone(), &reader, known).map(|series| series.points[0].value)
        };
        assert_eq!(code(&all[0], &known), Some(79.0));
        assert_eq!(
            code(&all[0], &BTreeMap::new()),
            Some(79.0),
            "unknown history"
        );
        let constant = [series(&[], &[(0, 79.0), (1500, 79.0)])];
        let known = reports(&constant, &reader, START, END);
        assert_eq!(code(&all[0], &known), None);
        // An older code with a larger number does not hide a recent one.
        let later = [series(&[], &[(0, 79.0), (1500, 74.0), (1600, 31.0)])];
        let known = reports(&later, &reader, START, END);
        assert_eq!(code(&all[0], &known), Some(74.0));
    }

    #[test]
    fn queries_name_the_devices() {
        let one = series(&[], &[]);
        let named = queries(&[&one, &one], 7200);
        assert_eq!(named, [format!(r#"{METRIC}{{UUID=~"GPU\\-a"}}[7200s]"#)]);
        let nameless = Series {
            labels: [("__name__".to_owned(), METRIC.to_owned())]
                .into_iter()
                .collect(),
            points: Vec::new(),
        };
        let unnamed = queries(&[&nameless], 7200);
        assert_eq!(unnamed, [format!("({METRIC} > 0)[7200s:1m]")]);
        for query in named.iter().chain(&unnamed) {
            promql_parser::parser::parse(query).unwrap();
        }
        let labels: Vec<String> = (0..2000)
            .map(|number| format!("GPU-{number:036}"))
            .collect();
        let many: Vec<Series> = labels
            .iter()
            .map(|uuid| Series {
                labels: [("UUID".to_owned(), uuid.clone())].into_iter().collect(),
                points: Vec::new(),
            })
            .collect();
        let split = queries(&many.iter().collect::<Vec<_>>(), 7200);
        assert!(split.len() > 5 && split.iter().all(|query| query.len() < 16_000));
    }
}
