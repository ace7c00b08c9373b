//! Builds PromQL and quotes values in it. Tests parse every query with a PromQL parser.

use crate::model::{JobKind, Series};

use super::dialect::{
    CLAIM, EXPORTED_POD, ExporterMetric, PLAIN_POD, Quantity, dialect_of, labels, metrics,
    node_labels, pod_labels,
};
use super::kube_state::resources::current_capacity;
use crate::stats::logs::training::Measure;

/// Quotes a label value for PromQL.
pub fn quoted(value: &str) -> String {
    let mut text = String::from('"');
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

/// The pods whose devices a query returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pods {
    /// Namespace of the pods.
    pub namespace: String,
    /// Regular expression that matches the complete names of the pods.
    pub names: String,
}

impl Pods {
    /// Selects pods by their exact names.
    pub fn by_name<'a>(namespace: &str, names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<String> = names.into_iter().map(regex::escape).collect();
        Self {
            namespace: namespace.to_owned(),
            names: names.join("|"),
        }
    }

    /// Selects all pods that a job ever had: the known pods, and those with names that controllers
    /// derive from the job's name.
    pub fn for_job<'a>(
        namespace: &str,
        job: &str,
        kind: JobKind,
        pods: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        // Controllers truncate long names. Their random suffixes contain no vowels and no digits
        // that resemble letters.
        const LETTERS: &str = "[bcdfghjklmnpqrstvwxz2456789]";
        let cut = |longest: usize| regex::escape(&job.chars().take(longest).collect::<String>());
        let grown = match kind {
            JobKind::Training => format!("{}-[0-9]{{1,5}}-{LETTERS}{{5}}", cut(52)),
            JobKind::Inference | JobKind::Compute => {
                format!("{}-{LETTERS}{{6,10}}-{LETTERS}{{5}}", cut(47))
            }
            JobKind::Notebook => format!("{}-[0-9]", regex::escape(job)),
        };
        let mut names: Vec<String> = pods.into_iter().map(regex::escape).collect();
        names.push(grown);
        Self {
            namespace: namespace.to_owned(),
            names: names.join("|"),
        }
    }
}

/// Queries the raw samples of the last `seconds`, in the half-open window `[start, end)`.
pub fn samples(quantities: &[Quantity], seconds: i64) -> String {
    format!(
        "{{__name__=~\"{}\"}}[{seconds}s] offset 1ms",
        pattern(quantities)
    )
}

/// Builds a regular expression for the metrics of these quantities.
pub fn pattern(quantities: &[Quantity]) -> String {
    names(quantities).join("|")
}

/// Queries raw samples like [`samples`], but only of devices in DRA claims, which
/// kube-state-metrics does not count.
pub fn claimed(seconds: i64) -> String {
    format!(
        "{{__name__=~\"{}\",{CLAIM}!=\"\"}}[{seconds}s] offset 1ms",
        names(&[Quantity::Utilization]).join("|")
    )
}

/// Query for the names and addresses of the nodes that kube-state-metrics reports.
pub const NODES: &str = "group by (node,internal_ip) (kube_node_info)";

/// Builds the parameters of a request for all GPU series of exporters.
pub fn gpu_series() -> String {
    let selector = format!(
        "{{__name__=~{}}}",
        quoted(&names(&[Quantity::Utilization, Quantity::MemoryUsed]).join("|"))
    );
    matching(&[&selector])
}

/// Builds the parameters of a request for the series of GPU nodes in kube-state-metrics.
pub fn kube_state_series() -> String {
    matching(&[&current_capacity()])
}

fn matching(selectors: &[&str]) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(selectors.iter().map(|selector| ("match[]", selector)));
    form.finish()
}

/// Queries the values of a label on the current GPU series, by metric.
pub fn clusters(label: &str) -> String {
    let gpus = selector(&[Quantity::Utilization, Quantity::MemoryUsed], None);
    let capacity = current_capacity();
    format!("group by (__name__,{label}) ({gpus} or {capacity})")
}

/// Queries the values of a label on the series of the pods with these UIDs.
pub fn clusters_of_pods(label: &str, uids: &[String]) -> String {
    let uids: Vec<String> = uids.iter().map(|uid| regex::escape(uid)).collect();
    format!(
        "group by ({label}) (kube_pod_info{{uid=~{}}})",
        quoted(&uids.join("|"))
    )
}

/// Queries the names of nodes with GPU series, with the value of a label.
pub fn clusters_of_nodes(label: &str) -> String {
    let nodes: Vec<&str> = node_labels().collect();
    let gpus = selector(&[Quantity::Utilization, Quantity::MemoryUsed], None);
    format!(
        "group by ({label},{}) ({gpus} or {})",
        nodes.join(","),
        current_capacity()
    )
}

/// Returns all names for its node that a series contains.
pub fn nodes_of(series: &Series) -> impl Iterator<Item = &str> {
    node_labels().filter_map(|label| series.label(label))
}

/// Queries the number of samples that devices had in the last hour.
pub fn samples_of_an_hour() -> String {
    // Sum the counts: `count_over_time` drops the metric name, so two metrics of a device would
    // have equal labels, which servers reject in one vector.
    let count = |name: &str| format!("(sum(count_over_time({name}[1h] offset 1ms)) or vector(0))");
    let counts = names(&[
        Quantity::Utilization,
        Quantity::MemoryUsed,
        Quantity::MemoryFree,
    ]);
    counts
        .into_iter()
        .map(count)
        .collect::<Vec<_>>()
        .join(" + ")
}

/// Returns the metrics that measure one of these quantities.
pub fn names(quantities: &[Quantity]) -> Vec<&'static str> {
    metrics()
        .filter(|metric| quantities.contains(&metric.quantity))
        .map(|metric| metric.name)
        .collect()
}

/// Returns the labels that gpuctl reads, for use in `by`.
pub(crate) fn keys() -> String {
    labels().collect::<Vec<_>>().join(",")
}

/// Selects the series of these quantities, for the devices of some pods or for all devices. Any of
/// several pairs of labels may name the pod.
fn selector(quantities: &[Quantity], pods: Option<&Pods>) -> String {
    let names = format!("__name__=~{}", quoted(&names(quantities).join("|")));
    let Some(pods) = pods else {
        return format!("{{{names}}}");
    };
    let namespace = quoted(&pods.namespace);
    let matcher = |(space, pod): (&str, &str)| {
        format!(
            "{{{names},{space}={namespace},{pod}=~{}}}",
            quoted(&pods.names)
        )
    };
    pod_labels()
        .into_iter()
        .map(matcher)
        .collect::<Vec<_>>()
        .join(" or ")
}

/// Reduces the series to one per device and metric, with only the labels that gpuctl reads.
/// Excludes quantities that only show faults, which [`super::faults`] queries.
pub fn gauges(quantities: &[Quantity], pods: Option<&Pods>) -> String {
    let plain: Vec<Quantity> = quantities
        .iter()
        .copied()
        .filter(|quantity| !quantity.is_fault())
        .collect();
    format!("max by (__name__,{}) ({})", keys(), selector(&plain, pods))
}

/// Queries the used memory of devices without utilization. `utilization` are the metrics that the
/// store has, from [`super::exported_metrics`].
pub fn without_utilization(utilization: &[&str]) -> String {
    let keys = keys();
    let unmatched = |name: &str| {
        let metrics = dialect_of(name)
            .into_iter()
            .flat_map(|dialect| dialect.metrics);
        // A device whose utilization is impossible counts as one without utilization.
        let possible = |metric: &ExporterMetric| {
            let (lowest, highest) = metric.range();
            format!("{} >= {lowest} <= {highest}", metric.name)
        };
        let utilization_names: Vec<String> = metrics
            .filter(|metric| utilization.contains(&metric.name))
            .map(possible)
            .collect();
        match utilization_names.is_empty() {
            true => name.to_owned(),
            false => format!(
                "({name} unless on ({keys}) ({}))",
                utilization_names.join(" or ")
            ),
        }
    };
    let queries: Vec<String> = names(&[Quantity::MemoryUsed])
        .into_iter()
        .map(unmatched)
        .collect();
    format!("max by (__name__,{keys}) ({})", queries.join(" or "))
}

/// Reduces the series like [`gauges`], but ignores samples older than `seconds`. Otherwise the
/// server would repeat the last sample for five minutes, and a gap would look like an idle device.
pub fn recent(quantities: &[Quantity], seconds: i64) -> String {
    format!(
        "max by (__name__,{}) (last_over_time({}[{seconds}s]))",
        keys(),
        selector(quantities, None)
    )
}

/// Queries the highest XID of each device in the last `seconds`.
pub fn xids(seconds: i64) -> String {
    let largest = |name: &str| {
        format!(
            "max by ({}) (max_over_time({name}[{seconds}s])) > 0",
            keys()
        )
    };
    names(&[Quantity::Xid])
        .into_iter()
        .map(largest)
        .collect::<Vec<_>>()
        .join(" or ")
}

/// Queries metrics that pods expose about their training, selected by the end of the metric's name.
pub fn exposed(pods: &Pods) -> String {
    let ends: Vec<&str> = Measure::ALL.iter().map(|measure| measure.name()).collect();
    let names = format!(
        "__name__=~{}",
        quoted(&format!("(?i)(.*[_:])?({})", ends.join("|")))
    );
    let namespace = quoted(&pods.namespace);
    let selector = |(space, pod): (&str, &str)| {
        format!(
            "{{{names},{space}={namespace},{pod}=~{}}}",
            quoted(&pods.names)
        )
    };
    format!(
        "max by (__name__,namespace,pod,exported_pod) ({})",
        [EXPORTED_POD, PLAIN_POD].map(selector).join(" or ")
    )
}

/// Window for counting samples to determine the scrape interval.
const WINDOW_SECONDS: u32 = 300;

/// Queries the ages of utilization samples in seconds, by the server's clock. Returns only ages
/// above two scrape intervals. `utilization` are the metrics that the store has, from
/// [`super::exported_metrics`].
pub fn stale_ages(utilization: &[&str]) -> String {
    let queries: Vec<String> = utilization
        .iter()
        .map(|name| format!("(time() - timestamp({name}))"))
        .collect();
    // The scrape interval is the window divided by the number of samples in it.
    let twice = format!("{} / {}", 2 * WINDOW_SECONDS, samples_counted(utilization));
    format!(
        "min by ({}) ({}) > on (job) group_left () ({twice})",
        keys(),
        queries.join(" or ")
    )
}

/// Queries the number of samples in five minutes for each scrape job, taking the device with the
/// most samples.
pub fn samples_counted(utilization: &[&str]) -> String {
    let queries: Vec<String> = utilization
        .iter()
        .map(|name| format!("count_over_time({name}[{WINDOW_SECONDS}s])"))
        .collect();
    format!("max by (job) ({})", queries.join(" or "))
}

/// Computes the seconds between two samples from the result of [`samples_counted`].
pub fn interval(counted: f64) -> Option<f64> {
    (counted >= 1.0).then(|| f64::from(WINDOW_SECONDS) / counted)
}

/// Counts the series of each exporter, to show which of several servers is the right one.
pub fn inventory() -> String {
    let utilization = names(&[Quantity::Utilization]).join("|");
    format!(
        "count by (__name__) ({{__name__=~{}}})",
        quoted(&format!("{utilization}|kube_node_info"))
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Quantity; 3] = [Quantity::Utilization, Quantity::MemoryUsed, Quantity::Xid];

    #[test]
    fn all_queries_parse_as_promql() {
        let pods = Pods::by_name("team-a", ["train-0-x", "a.b"]);
        let utilization = names(&[Quantity::Utilization]);
        for query in [
            claimed(60),
            gauges(&ALL, None),
            gauges(&ALL, Some(&pods)),
            exposed(&pods),
            stale_ages(&utilization),
            samples_counted(&utilization),
            without_utilization(&utilization),
            without_utilization(&[]),
            inventory(),
            xids(600),
        ] {
            promql_parser::parser::parse(&query).unwrap_or_else(|error| panic!("{error}: {query}"));
        }
        assert!(
            gauges(&ALL, Some(&pods))
                .contains(r#"exported_namespace="team-a",exported_pod=~"train\\-0\\-x|a\\.b""#)
        );
        // A ratio of 50 is 5000 %, which is an impossible utilization.
        let silent =
            without_utilization(&["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"]);
        assert!(
            silent.contains(
                "DCGM_FI_DEV_GPU_UTIL >= 0 <= 100 or DCGM_FI_PROF_GR_ENGINE_ACTIVE >= 0 <= 1)"
            ),
            "{silent}"
        );
        assert_eq!((interval(20.0), interval(0.0)), (Some(15.0), None));
    }

    proptest! {
        /// A pod name remains a single value of a single matcher, whatever characters it contains.
        #[test]
        fn quoted_values_cannot_escape(namespace in "\\PC*", pod in ".*") {
            let pods = Pods::by_name(&namespace, [pod.as_str()]);
            let query = gauges(&[Quantity::Utilization], Some(&pods));
            let parsed = promql_parser::parser::parse(&query);
            prop_assert!(parsed.is_ok(), "{query}");
            let expected = regex::Regex::new(&format!("^(?:{})$", pods.names)).unwrap();
            prop_assert!(expected.is_match(&pod) || pod.contains('\n'));
        }
    }
}
