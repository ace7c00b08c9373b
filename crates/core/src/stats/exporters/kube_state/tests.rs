//! Tests the queries of kube-state-metrics.

use super::*;

#[test]
fn all_queries_parse_as_promql() {
    let mut queries = vec![
        requests(3600),
        node_labels(3600),
        capacity(60),
        holders(86_400),
        quotas(),
        lifetimes("a.b"),
        node_state::worst(&["a.b", "c"], "node", 3600),
    ];
    queries.extend(
        node_state::NodeStateQuery::ALL
            .map(|state| node_state::states(state, &["a.b"], "exported_node", 60)),
    );
    queries.extend([
        any_pod(60),
        scraped(604_800),
        namespace::any_pod("team-a", 604_800),
        custom_owners(60),
        owned_by("n", "Job", &["a.b"], 60),
        first_start(&Pods::by_name("n", ["a.b-0"]), 60),
    ]);
    queries.extend([
        owned("a.b", 60),
        ends(&["a.b-0", "c"], "exported_pod", 60),
        job_ends("a.b", 60),
        namespaces_of_owner("a.b", 60),
    ]);
    queries.extend(
        [
            StartQuery::Created,
            StartQuery::Placed,
            StartQuery::Requested,
            StartQuery::Place,
            StartQuery::Owner,
        ]
        .map(|fact| starts(fact, 604_800)),
    );
    use PodQuery::*;
    for fact in [
        PhasesEver,
        Phases,
        Places,
        Owners,
        Labels,
        Annotations,
        ReplicaSets,
        Jobs,
        Deployments,
        Groups,
    ] {
        queries.push(pod_facts(fact, &["a.b-0", "c"], "pod", 3600));
    }
    for query in queries {
        promql_parser::parser::parse(&query).unwrap_or_else(|error| panic!("{query}: {error}"));
    }
}

#[test]
fn pods_with_two_phases_have_changed() {
    let series = |pod: &str, phase: &str, instance: &str| {
        let labels = [
            ("namespace", "n"),
            ("pod", pod),
            ("uid", pod),
            ("phase", phase),
            ("instance", instance),
        ];
        let labels = labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into_iter()
            .collect();
        Series {
            labels,
            points: Vec::new(),
        }
    };
    let phases = [
        series("a", "Pending", "x"),
        series("a", "Running", "x"),
        series("b", "Running", "x"),
        series("b", "Running", "y"),
    ];
    assert_eq!(changed(&phases), ["a".to_owned()].into());
}

#[test]
fn keys_convert_like_kube_state_metrics() {
    assert_eq!(
        label_key("app.kubernetes.io/name"),
        "app_kubernetes_io_name"
    );
    assert_eq!(label_key("costCenter"), "cost_center");
    assert_eq!(label_key("team"), "team");
}

#[test]
fn search_for_scrapes_reads_no_samples_of_pods_without_devices() {
    let query = scraped(31 * 86_400);
    let metrics = query.match_indices("kube_pod_");
    for (at, _) in metrics {
        let selector = &query[at..];
        assert!(
            selector.starts_with("kube_pod_container_resource_requests{resource=~"),
            "{query}"
        );
    }
    // A store may have only one of them.
    assert!(query.contains("kube_node_info") && query.contains("kube_node_status_capacity"));
    // Stores without name patterns get one query per name, which would not work with `or`.
    assert!(!query.contains("__name__"), "{query}");
}
