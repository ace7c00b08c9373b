//! Tests queries that are restricted to one cluster, using a PromQL parser.

use promql_parser::parser::parse;
use proptest::prelude::*;

use super::judge::holds;
use super::*;

#[test]
fn selectors_get_the_cluster_label() {
    let narrowed = |query: &str| Matchers::from_str("cluster=prod").unwrap().narrowed(query);
    assert_eq!(narrowed("up"), r#"up{cluster="prod"}"#);
    assert_eq!(narrowed("up{}"), r#"up{cluster="prod"}"#);
    assert_eq!(
        narrowed(r#"sum by (a, b) (rate(x{y="}",}[5m] offset 1ms)) > 1e3"#),
        r#"sum by (a, b) (rate(x{y="}",cluster="prod"}[5m] offset 1ms)) > 1e3"#
    );
    assert_eq!(
        narrowed("time() - timestamp(x)"),
        r#"time() - timestamp(x{cluster="prod"})"#
    );
    assert_eq!(Matchers::default().narrowed("up"), "up");
}

#[test]
fn label_that_an_exporter_lacks_is_optional() {
    let matchers = Matchers::from_str("cluster=a.b").unwrap();
    let matchers = matchers.or_unlabeled(true);
    let narrowed = matchers.narrowed("kube_pod_info");
    assert_eq!(narrowed, r#"kube_pod_info{cluster=~"a\\.b|"}"#);
    parse(&narrowed).unwrap();
    assert_eq!(matchers.to_string(), "cluster=a.b (or unset)");
}

proptest! {
    #[test]
    fn matchers_are_added_to_every_selector(
        name in "[a-z_:][a-z0-9_:]{0,8}x",
        value in "[ -~]{0,12}",
        form in 0_usize..8,
    ) {
        let value = quoted(&value);
        let selector = format!("{name}{{l={value}}}");
        let query = match form {
            0 => selector,
            1 => name,
            2 => format!("max by (by, on) ({selector}) or min({name}) by (x)"),
            3 => format!("sum without(x) (rate({selector}[5m:1m] offset 1d)) / on(a) group_left(b) {name}"),
            4 => format!("label_replace({selector}, \"a\", {value}, \"b\", \"(.*)\")"),
            5 => format!("{name} unless on(node) {selector} == 3 or {name} @ end()"),
            6 => format!("topk(3, {{__name__=~{value}, a!=\"b\"}})"),
            _ => format!("quantile_over_time(0.5, {name}[1h]) > bool 0x1f and NaN != {name}"),
        };
        if parse(&query).is_ok() {
            holds(&query);
        }
    }
}

#[test]
fn matchers_parse_common_notations() {
    for text in ["cluster=prod", "cluster = \"prod\"", "cluster=\"prod\""] {
        assert_eq!(
            text.parse::<Matchers>().unwrap().to_string(),
            "cluster=prod"
        );
    }
    for text in [
        "__name__=up",
        "__name__ = \"up\"",
        "__name__=~up.*",
        "{__name__=~\"up\"}",
        "{__name__=\"up\",a=\"b\"}",
    ] {
        let error = text.parse::<Matchers>().unwrap_err().to_string();
        assert!(
            error.ends_with("match a label of the cluster, such as cluster=prod"),
            "{error}"
        );
    }
    for text in [
        "cluster",
        "cluster=",
        "=prod",
        "2x=y",
        "cluster=~p.*",
        "a-b=c",
    ] {
        assert!(text.parse::<Matchers>().is_err(), "{text}");
    }
}
