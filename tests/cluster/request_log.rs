//! Tests that `-vv` and `GPUCTL_LOG` log each request on stderr, without secrets.

use serde_json::Value;

use crate::runner::run;
use crate::support::Scene;

const LIST: &str = "gpuctl::kubernetes: method=\"GET\" path=\"/apis/batch/v1/namespaces/request-log/jobs\" status=200";

#[test]
fn each_request_is_logged_without_its_query_string() {
    let scene = Scene::new("request-log");
    let arguments = ["get", "jobs", "-o", "json"];
    let plain = scene.gpuctl(&arguments).ok();
    let logged = scene.gpuctl(&[&arguments[..], &["-vv"]].concat()).ok();
    assert_eq!(logged.out, plain.out, "stdout stays a document");
    assert!(logged.err.contains(LIST), "{}", logged.err);
    assert!(logged.err.contains(" ms="), "{}", logged.err);
    assert!(logged.err.contains(" bytes="), "{}", logged.err);
    for hidden in ["?", "limit=", "Bearer", "hyper"] {
        assert!(!logged.err.contains(hidden), "{hidden}: {}", logged.err);
    }
    let detailed = scene.gpuctl(&[&arguments[..], &["-v"]].concat()).ok();
    assert!(!detailed.err.contains("gpuctl::"), "{}", detailed.err);
}

#[test]
fn gpuctl_log_selects_an_api_and_refuses_other_targets() {
    let scene = Scene::new("request-filter");
    let with_filter = |filter: &str| {
        let mut command = scene.command(&["get", "jobs", "-o", "json"]);
        command.env("GPUCTL_LOG", filter);
        run(command, "")
    };
    let kubernetes = with_filter("gpuctl::kubernetes=debug").ok();
    assert!(
        kubernetes.err.contains("gpuctl::kubernetes"),
        "{}",
        kubernetes.err
    );
    let prometheus = with_filter("gpuctl::prometheus=debug").ok();
    assert!(
        !prometheus.err.contains("gpuctl::kubernetes"),
        "{}",
        prometheus.err
    );
    let refused = with_filter("hyper=trace").exits(2);
    let error: Value = serde_json::from_str(&refused.err).unwrap();
    let message = "`GPUCTL_LOG` names `hyper`, but gpuctl logs only its own targets";
    assert_eq!(error["message"], message);
}
