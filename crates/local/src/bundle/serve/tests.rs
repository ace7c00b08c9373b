//! Tests of answers from a bundle.

use super::*;

fn bundle() -> Bundle {
    let mut bundle = Bundle::new(
        jiff::Timestamp::UNIX_EPOCH,
        "lab".into(),
        "https://lab".into(),
        "team".into(),
    );
    let pod = |namespace: &str, name: &str, phase: &str, app: &str| {
        json!({"metadata": {"name": name, "namespace": namespace,
        "labels": {"app": app}}, "status": {"phase": phase}})
    };
    let items = json!([
        pod("a", "one", "Running", "x"),
        pod("a", "two", "Failed", "x"),
        pod("b", "three", "Running", "y")
    ]);
    let list = |kind: &str, items: Value| RecordedAnswer {
        code: 200,
        body: json!({"kind": kind, "apiVersion": "v1", "metadata": {}, "items": items}),
    };
    bundle.record_list("/api/v1/pods".into(), list("PodList", items));
    let refused = json!({"kind": "Status", "code": 403, "message": "no"});
    bundle.record_list(
        "/api/v1/nodes".into(),
        RecordedAnswer {
            code: 403,
            body: refused.clone(),
        },
    );
    bundle.record_list(
        "/api/v1/events".into(),
        RecordedAnswer {
            code: 403,
            body: refused,
        },
    );
    bundle.record_list(
        "/api/v1/namespaces/a/events".into(),
        list("EventList", json!([])),
    );
    let groups = json!({"groups": [{"name": "batch", "versions": [{"version": "v1"}]}]});
    bundle.record(
        Question::Get("/apis".into()),
        RecordedAnswer {
            code: 200,
            body: groups,
        },
    );
    let log = "1969-12-31T23:59:00Z old\n1969-12-31T23:59:59Z new\n";
    bundle.record(
        Question::Log("/api/v1/namespaces/a/pods/one/log?container=main".into()),
        RecordedAnswer {
            code: 200,
            body: log.into(),
        },
    );
    bundle
}

fn names(bundle: &Bundle, path: &str) -> Vec<String> {
    let reply = bundle.reply("GET", path, b"").unwrap();
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    body["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn lists_are_selected_and_paged_as_the_server_does() {
    let bundle = bundle();
    assert_eq!(names(&bundle, "/api/v1/pods"), ["one", "two", "three"]);
    assert_eq!(names(&bundle, "/api/v1/namespaces/a/pods"), ["one", "two"]);
    assert_eq!(
        names(
            &bundle,
            "/api/v1/pods?fieldSelector=status.phase!%3DSucceeded%2Cstatus.phase!%3DFailed"
        ),
        ["one", "three"]
    );
    assert_eq!(
        names(&bundle, "/api/v1/pods?labelSelector=app%3Dx&limit=1"),
        ["one"]
    );
    assert_eq!(
        names(
            &bundle,
            "/api/v1/pods?labelSelector=app%3Dx&limit=1&continue=1"
        ),
        ["two"]
    );
}

#[test]
fn objects_are_found_or_missing() {
    let bundle = bundle();
    let object: Value = serde_json::from_slice(
        &bundle
            .reply("GET", "/api/v1/namespaces/b/pods/three", b"")
            .unwrap()
            .body,
    )
    .unwrap();
    assert_eq!(
        (object["kind"].as_str(), object["status"]["phase"].as_str()),
        (Some("Pod"), Some("Running"))
    );
    let code = |path: &str| bundle.reply("GET", path, b"").unwrap().code;
    assert_eq!(code("/api/v1/namespaces/a/pods/three"), 404);
    assert_eq!(code("/apis/kueue.x-k8s.io"), 404);
    assert_eq!(code("/api/v1/nodes"), 403);
    assert!(
        bundle.reply("GET", "/api/v1/nodes/n", b"").is_err(),
        "`get` may be allowed without `list`"
    );
    assert!(
        bundle
            .reply("GET", "/api/v1/namespaces/b/events", b"")
            .is_err(),
        "it was not captured"
    );
    assert_eq!(
        code("/api/v1/namespaces/a/events"),
        200,
        "a list of all namespaces was denied"
    );
}

#[test]
fn requests_missing_from_a_bundle_fail_and_writes_are_refused() {
    let bundle = bundle();
    assert!(
        bundle
            .query("api/v1/query?query=first")
            .is_ok_and(|(_, body)| body.contains("\"result\":[]"))
    );
    assert_eq!(bundle.take_missing().len(), 1);
    bundle.close();
    assert!(bundle.reply("GET", "/apis/batch/v1/jobs", b"").is_err());
    assert!(bundle.query("api/v1/query?query=up").is_err());
    assert_eq!(bundle.take_missing().len(), 2);
    assert!(bundle.reply("GET", "/api/v1/pods?watch=1", b"").is_err());
    assert!(
        bundle.take_missing().is_empty(),
        "a watch is not fetched later"
    );
    assert_eq!(
        bundle
            .reply("DELETE", "/api/v1/namespaces/a/pods/one", b"")
            .unwrap()
            .code,
        405
    );
}

#[test]
fn a_closed_bundle_answers_only_recorded_access_reviews() {
    let bundle = bundle();
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(
        bundle.reply("POST", path, b"{}").unwrap().code,
        201,
        "noted, and granted for now"
    );
    bundle.close();
    assert!(bundle.reply("POST", path, b"{\"a\":1}").is_err());
    let denied = json!({"status": {"allowed": false}});
    bundle.record(
        Question::Review(path.into(), "{}".into()),
        RecordedAnswer {
            code: 201,
            body: denied.clone(),
        },
    );
    assert_eq!(
        bundle.reply("POST", path, b"{}").unwrap().body,
        denied.to_string().into_bytes()
    );
}

#[test]
fn logs_have_their_last_lines() {
    let read = |options: &str| {
        bundle()
            .reply(
                "GET",
                &format!("/api/v1/namespaces/a/pods/one/log?container=main{options}"),
                b"",
            )
            .unwrap()
    };
    assert_eq!(read("&tailLines=1").body, b"1969-12-31T23:59:59Z new\n");
    assert_eq!(read("&sinceSeconds=10").body, b"1969-12-31T23:59:59Z new\n");
    assert_eq!(read("").body.len(), 50);
}
