//! Tests the requests that `score` sends to a control system, chats and an AI. A mock server checks
//! them and makes some of them fail.

use std::time::Duration;

use gpuctl_sandbox::eventually;
use serde_json::{Value, json};

use crate::mock_server::{MockServer, Reply};
use crate::support::{Run, Scene, file, gpuctl, near, run};

const SHORT: [&str; 4] = ["--window", "8s", "--step", "1s"];

/// Runs a pod with four devices, one per score band, and waits until the window has only their
/// load. Returns the pod and the expected scores.
fn train_in_all_bands(scene: &Scene) -> (String, [f64; 4]) {
    let pods = scene.train("work", 1, 4);
    // Utilization, memory copy, MiB of 80,000, watts of 400.
    let loads = [
        (0.0, 0.0, 800, 40.0),
        (14.0, 5.0, 8000, 80.0),
        (50.0, 10.0, 20_000, 160.0),
        (90.0, 60.0, 60_000, 320.0),
    ];
    scene.load(&pods[0], |index, gpu| {
        let (utilization, copy, used, watts) = loads[index as usize];
        (gpu.utilization, gpu.memory_copy, gpu.watts) = (utilization, copy, watts);
        (gpu.used_mib, gpu.free_mib) = (used, 80_000 - used);
    });
    // 0.2 · 1 + 0.1 · 10; 7 + 1 + 2 + 2; 25 + 2 + 5 + 4; 45 + 12 + 15 + 8.
    let expected_scores = [1.2, 12.0, 36.0, 80.0];
    scene.until(&[&["score"], &SHORT[..]].concat(), |list| {
        let scores: Vec<f64> = list
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|row| row["score"].as_f64())
            .collect();
        scores.len() == 4
            && scores
                .iter()
                .zip(expected_scores)
                .all(|(actual, expected)| (actual - expected).abs() < 0.006)
    });
    (pods[0].clone(), expected_scores)
}

fn score(scene: &Scene, arguments: &[&str], environment: &[(&str, &str)]) -> Run {
    let mut command = gpuctl(scene.cluster, gpuctl_sandbox::Persona::Admin);
    command
        .args(["--prometheus", &scene.prometheus, "-n", scene.name, "score"])
        .args(SHORT)
        .args(arguments);
    command.envs(environment.iter().copied());
    run(command, "")
}

/// Waits until the data covers the whole window, since the pod starts out younger than the window.
fn wait_for_complete_data(scene: &Scene, lows: usize) {
    eventually(
        &format!("{lows} low GPUs have complete data"),
        Duration::from_secs(40),
        || {
            let run = score(
                scene,
                &[
                    "--control-api",
                    "http://127.0.0.1:1/x",
                    "--control-status",
                    "low",
                    "--control-partial",
                ],
                &[],
            )
            .ok();
            (run.err.matches("would post").count() == lows)
                .then_some(())
                .ok_or(run.err)
        },
    );
}

#[test]
fn control_calls_need_execute_and_complete_data() {
    let scene = Scene::new("controlled", 1);
    let (pod, expected_scores) = train_in_all_bands(&scene);
    wait_for_complete_data(&scene, 2);
    let control = MockServer::always(200, "{}");
    let url = control.url("/api/optimize?key=canary");

    // The pod also has two busy GPUs, and the system may end the whole pod.
    let low = ["low", "--control-api", &url, "--control-status", "low"];
    let careful = score(&scene, &low, &[])
        .ok()
        .says("2 low GPUs were skipped: their pods use other GPUs");
    assert!(!careful.err.contains("would post"), "{}", careful.err);
    // Nothing is posted without --execute, even if the config file sets it.
    let dry = score(&scene, &[&low[..], &["--control-partial"]].concat(), &[])
        .ok()
        .says("use --execute to post 2 calls");
    assert_eq!(dry.err.matches("would post").count(), 2);
    let text = format!(
        "control: {{enabled: true, api_url: '{url}', status: low, execute: true, headers: {{X-Own: canary-2}}}}\n"
    );
    let config = file("control.yaml", &text);
    let config = config.to_str().unwrap();
    let with_config = ["--config", config, "--control-partial"];
    let dry = score(&scene, &[&with_config[..], &["-o", "json"]].concat(), &[]).ok();
    assert!(
        dry.err.contains("nothing was posted") && dry.json().as_array().unwrap().len() == 4,
        "{}",
        dry.err
    );
    assert!(!dry.err.contains("canary"), "{}", dry.err);
    assert!(control.take().is_empty());

    let sent = score(
        &scene,
        &[
            "--control-api",
            &url,
            "--control-status",
            "low",
            "--control-partial",
            "--execute",
        ],
        &[],
    )
    .ok()
    .says("posted 2 of 2 low GPUs");
    assert!(
        !sent.err.contains("canary"),
        "the path and query of the URL may be secret: {}",
        sent.err
    );
    let requests = control.take();
    assert_eq!(requests.len(), 2);
    for (index, status) in [(0, "idle"), (1, "low")] {
        let request = requests
            .iter()
            .find(|request| request.json()["status"] == status)
            .unwrap();
        let body = request.json();
        let at = body["timestamp"].as_str().unwrap();
        // The body must match byte for byte.
        let expected = format!(
            r#"{{"gpu_id":"GPU-controlled-0-{index}","pod":"{pod}","namespace":"controlled","hostname":"controlled-0","score":{:.1},"status":"{status}","timestamp":"{at}","pod_gpu_count":4,"pod_low_gpu_count":2}}"#,
            expected_scores[index]
        );
        assert_eq!(request.body, expected);
        assert_eq!(
            (request.line.as_str(), request.header("content-type")),
            ("POST /api/optimize?key=canary", Some("application/json"))
        );
        assert!(at.len() == 20 && at.ends_with('Z'), "{at}");
    }
    // By default only idle GPUs are posted.
    let post = ["--control-api", &url, "--control-partial", "--execute"];
    score(&scene, &post, &[]).ok().says("posted 1 of 1");
    assert_eq!(control.take()[0].json()["status"], "idle");
    // Headers of the config file are sent only to the address of the config file.
    score(&scene, &[&with_config[..], &["--execute"]].concat(), &[]).ok();
    let headers = |requests: Vec<crate::mock_server::Request>| {
        requests
            .iter()
            .map(|request| request.header("x-own").map(ToOwned::to_owned))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        headers(control.take()),
        [Some("canary-2".to_owned()), Some("canary-2".to_owned())]
    );
    score(
        &scene,
        &[
            "--config",
            config,
            "--control-api",
            &control.url("/else"),
            "--control-partial",
            "--execute",
        ],
        &[],
    )
    .ok();
    assert_eq!(headers(control.take()), [None, None]);
    score(&scene, &["--execute"], &[])
        .exits(2)
        .says("no control system is configured");

    // Failures: the list is still printed, a message reports the failure, and the exit code is 1.
    let elsewhere = MockServer::always(200, "{}");
    let redirect_target = elsewhere.url("/stolen");
    let fast = file(
        "fast.yaml",
        "control: {timeout: 1}\nscheduler: {max_workers: 2}\n",
    );
    for (reply, tries, message) in [
        (Reply::Text(500, String::new()), 1, "returned 500"),
        (Reply::Text(400, String::new()), 1, "returned 400"),
        (Reply::Text(429, String::new()), 3, "returned 429 (3 tries)"),
        (Reply::Half, 1, "closed the connection while responding"),
        (Reply::Silence, 1, "did not respond within 1s"),
        (Reply::Reset, 1, "cannot be reached"),
        (
            Reply::Header(307, format!("location: {redirect_target}"), String::new()),
            1,
            "redirects are not followed",
        ),
    ] {
        let bad = MockServer::start(move |_, _| reply.clone());
        let arguments = [
            "--config",
            fast.to_str().unwrap(),
            "--control-api",
            &bad.url("/x"),
            "--control-status",
            "idle",
            "--control-partial",
            "--execute",
            "-o",
            "json",
        ];
        let run = score(&scene, &arguments, &[]).exits(1).says(message);
        assert_eq!(
            run.json().as_array().unwrap().len(),
            4,
            "the answer is complete anyway"
        );
        assert_eq!(
            bad.take().len(),
            tries,
            "{message}: a call that may have taken effect is not repeated"
        );
    }
    assert!(elsewhere.take().is_empty());
    // Any 2xx answer is a success.
    score(
        &scene,
        &[
            "--control-api",
            &MockServer::always(202, "<html>").url("/x"),
            "--control-partial",
            "--execute",
        ],
        &[],
    )
    .ok();

    // A low pod that is younger than the window is skipped.
    let young = scene.train("young", 1, 1);
    scene.load(&young[0], |_, gpu| {
        (gpu.utilization, gpu.memory_copy) = (0.0, 0.0);
    });
    let is_young = |request: &crate::mock_server::Request| request.json()["pod"] == json!(young[0]);
    eventually("the young pod is skipped", Duration::from_secs(40), || {
        let mut command = gpuctl(scene.cluster, gpuctl_sandbox::Persona::Admin);
        command.args([
            "--prometheus",
            &scene.prometheus,
            "-n",
            scene.name,
            "score",
            "low",
            "--window",
            "20s",
            "--step",
            "1s",
        ]);
        command.args(["--control-api", &url, "--execute"]);
        let scored = run(command, "").ok();
        assert!(!control.take().iter().any(is_young), "{}", scored.err);
        scored
            .err
            .contains("were skipped: their data is incomplete or covers less than the window")
            .then_some(())
            .ok_or((scored.out, scored.err))
    });
}

#[test]
fn notifications_are_sent_once_in_the_format_of_each_chat() {
    let scene = Scene::new("told", 1);
    let (pod, _) = train_in_all_bands(&scene);
    let state = scene.cluster.folder().join("told-state");
    let state = state.to_str().unwrap();
    let (state_home, secret) = (
        ("XDG_STATE_HOME", state),
        ("GPUCTL_NOTIFY_SECRET", "canary-secret"),
    );
    let text = format!(
        "2 GPUs with a utilization score below 20\n- told/{pod}: score 1.2 (idle), GPU-told-0-0 on told-0\n- told/{pod}: score 12.0 (low), GPU-told-0-1 on told-0\n"
    );
    for (format, reply, expected) in [
        (
            "feishu",
            r#"{"code":0}"#,
            json!({"msg_type": "text", "content": {"text": text}}),
        ),
        (
            "lark",
            r#"{"StatusCode":0}"#,
            json!({"msg_type": "text", "content": {"text": text}}),
        ),
        ("slack", "ok", json!({"text": text})),
        (
            "dingtalk",
            r#"{"errcode":0,"errmsg":"ok"}"#,
            json!({"msgtype": "text", "text": {"content": text}}),
        ),
        (
            "wecom",
            r#"{"errcode":0,"errmsg":"ok"}"#,
            json!({"msgtype": "text", "text": {"content": text}}),
        ),
    ] {
        let chat = MockServer::always(200, reply);
        let url = chat.url("/hook/canary");
        let notify = |environment: &[(&str, &str)]| {
            score(
                &scene,
                &["--notify", &url, "--notify-format", format],
                environment,
            )
        };
        let sent = notify(&[state_home]).ok();
        assert!(!sent.err.contains("canary"), "{}", sent.err);
        let requests = chat.take();
        assert_eq!(
            (requests.len(), requests[0].body.as_str()),
            (1, expected.to_string().as_str()),
            "{format}"
        );
        // The same message is not sent again.
        notify(&[state_home]).ok();
        assert!(chat.take().is_empty(), "{format}");
    }
    // Messages can be signed.
    let chat = MockServer::always(200, r#"{"code":0}"#);
    score(
        &scene,
        &["--notify", &chat.url("/f"), "--notify-format", "feishu"],
        &[state_home, secret],
    )
    .ok();
    let body = chat.take().remove(0).json();
    assert!(
        body["timestamp"].as_str().unwrap().parse::<i64>().unwrap() > 1_700_000_000
            && body["sign"].as_str().unwrap().len() == 44
    );
    let chat = MockServer::always(200, r#"{"errcode":0}"#);
    score(
        &scene,
        &[
            "--notify",
            &chat.url("/d?access_token=t"),
            "--notify-format",
            "dingtalk",
        ],
        &[state_home, secret],
    )
    .ok();
    let line = chat.take().remove(0).line;
    assert!(
        line.starts_with("POST /d?access_token=t&timestamp=") && line.contains("&sign="),
        "{line}"
    );
    // The generic format also has the devices.
    let chat = MockServer::always(200, "");
    score(&scene, &["--notify", &chat.url("/g")], &[state_home]).ok();
    let body = chat.take().remove(0).json();
    assert_eq!(
        (&body["count"], &body["threshold"], &body["text"]),
        (&json!(2), &json!(20.0), &json!(text))
    );
    near(&body["gpus"][0]["score"], 1.2);

    // In quiet hours nothing is sent. The message is sent afterwards.
    let chat = MockServer::always(200, "");
    let url = chat.url("/q");
    score(
        &scene,
        &["--notify", &url, "--notify-quiet-hours", "00:00-24:00"],
        &[state_home],
    )
    .ok();
    assert!(chat.take().is_empty());
    score(&scene, &["--notify", &url], &[state_home]).ok();
    assert_eq!(chat.take().len(), 1);
    // The message is sent again after the repeat interval of one second, and if the state file is
    // corrupt.
    std::thread::sleep(Duration::from_secs(2));
    score(
        &scene,
        &["--notify", &url, "--notify-repeat", "1s"],
        &[state_home],
    )
    .ok();
    assert_eq!(chat.take().len(), 1);
    for entry in std::fs::read_dir(format!("{state}/gpuctl")).unwrap() {
        std::fs::write(entry.unwrap().path(), "{\"version\": 1, \"told\":").unwrap();
    }
    score(&scene, &["--notify", &url], &[state_home]).ok();
    assert_eq!(chat.take().len(), 1);
    // Without a writable state folder the message is sent, with a warning.
    score(
        &scene,
        &["--notify", &url],
        &[("XDG_STATE_HOME", "/proc/none")],
    )
    .ok()
    .says("the next run will send it again");
    assert_eq!(chat.take().len(), 1);

    // The next run repeats a message that was not delivered.
    for (format, reply, message) in [
        ("generic", Reply::Text(500, String::new()), "returned 500"),
        (
            "feishu",
            Reply::Text(200, r#"{"code":19021,"msg":"sign match fail"}"#.to_owned()),
            "rejected the message: 19021 sign match fail",
        ),
        (
            "wecom",
            Reply::Text(200, "<html>".to_owned()),
            "did not return JSON",
        ),
        (
            "dingtalk",
            Reply::Half,
            "closed the connection while responding",
        ),
        (
            "slack",
            Reply::Header(
                302,
                "location: http://127.0.0.1:1/".to_owned(),
                String::new(),
            ),
            "redirects are not followed",
        ),
        ("slack", Reply::Reset, "cannot be reached"),
    ] {
        let bad = MockServer::start(move |_, before| {
            if before == 0 {
                reply.clone()
            } else {
                Reply::Text(200, r#"{"code":0,"errcode":0}"#.to_owned())
            }
        });
        let url = bad.url("/b");
        let arguments = [
            "stats",
            "--notify",
            &url,
            "--notify-format",
            format,
            "-o",
            "json",
        ];
        let run = score(&scene, &arguments, &[state_home])
            .exits(1)
            .says(message)
            .says("the message was not sent");
        assert_eq!(run.json()["total_gpus"], 4);
        score(&scene, &arguments, &[state_home]).ok();
        assert_eq!(bad.take().len(), 2, "{format}: {message}");
    }
    score(&scene, &["--notify"], &[state_home])
        .exits(2)
        .says("no webhook is configured");
    let run = score(&scene, &["--notify", "low"], &[state_home]).exits(2);
    assert!(
        run.err.contains("expected an http:// or https:// URL"),
        "{}",
        run.err
    );
}

const KEY: (&str, &str) = ("AI_API_KEY", "sk-canary");

fn completion(content: &str) -> String {
    json!({"choices": [{"message": {"role": "assistant", "content": content}}]}).to_string()
}

/// The answer of a model.
fn verdict(status: &str, confidence: f64) -> String {
    json!({"status": status, "confidence": confidence, "reason": "每十秒计算一次", "recommendation": "保留", "ai_adjusted_score": 55.5}).to_string()
}

fn without_opinions(mut list: Value) -> Value {
    for row in list.as_array_mut().unwrap() {
        row["ai_analysis"] = Value::Null;
        (row["timestamp"], row["samples"]) = (Value::Null, Value::Null);
    }
    list
}

#[test]
fn ai_opinions_do_not_change_scores() {
    let scene = Scene::new("opinions", 1);
    let (pod, expected_scores) = train_in_all_bands(&scene);
    let plain = without_opinions(score(&scene, &["-o", "json"], &[]).ok().json());
    let ai = MockServer::start(|request, _| {
        let idle = request.json()["messages"][1]["content"]
            .as_str()
            .unwrap()
            .contains("\"status\":\"idle\"");
        Reply::Text(
            200,
            completion(&verdict(
                if idle { "active" } else { "suspicious" },
                if idle { 0.92 } else { 0.4 },
            )),
        )
    });
    let url = ai.url("/v1/chat/completions");
    let run = score(
        &scene,
        &["-v", "-o", "json", "--ai", "--ai-url", &url],
        &[KEY],
    )
    .ok();
    assert!(!run.err.contains("canary") && !run.out.contains("canary"));
    let list = run.json();
    assert_eq!(
        without_opinions(list.clone()),
        plain,
        "an opinion does not change the score"
    );
    let opinion = &list[0]["ai_analysis"];
    assert_eq!(
        opinion,
        &serde_json::from_str::<Value>(&verdict("active", 0.92)).unwrap()
    );
    assert_eq!(list[3]["ai_analysis"]["status"], "suspicious");
    let requests = ai.take();
    assert_eq!(requests.len(), 4);
    for request in &requests {
        let body = request.json();
        assert_eq!(
            (request.line.as_str(), request.header("authorization")),
            ("POST /v1/chat/completions", Some("Bearer sk-canary"))
        );
        assert_eq!(
            (&body["model"], &body["messages"][0]["role"]),
            (&json!("gpt-4"), &json!("system"))
        );
        assert!(
            body["messages"][0]["content"]
                .as_str()
                .unwrap()
                .contains("`en`")
        );
    }
    let question: Value = requests
        .iter()
        .map(|request| {
            serde_json::from_str(request.json()["messages"][1]["content"].as_str().unwrap())
                .unwrap()
        })
        .find(|question: &Value| question["status"] == "high")
        .unwrap();
    near(&question["score"], expected_scores[3]);
    assert_eq!(
        (&question["pod"], &question["namespace"], &question["node"]),
        (&json!(pod), &json!("opinions"), &json!("opinions-0"))
    );
    near(&question["series"]["gpu_utilization_percent"]["mean"], 90.0);
    assert_eq!(
        question["series"]["gpu_utilization_percent"]["curve"]
            .as_array()
            .unwrap()
            .len(),
        9
    );

    // A confident "active" removes the idle GPU from the list. Other opinions change nothing.
    let low = |arguments: &[&str]| {
        score(
            &scene,
            &[&["low", "-o", "json", "--ai", "--ai-url", &url], arguments].concat(),
            &[KEY],
        )
        .ok()
        .json()
    };
    assert_eq!(
        (&low(&[])["count"], &low(&[])["gpus"][0]["status"]),
        (&json!(1), &json!("low"))
    );
    let strict = file("strict.yaml", "ai: {threshold: 0.95}\n");
    let shown = low(&["--config", strict.to_str().unwrap()]);
    assert_eq!(
        (
            &shown["count"],
            &shown["gpus"][0]["ai_analysis"]["confidence"]
        ),
        (&json!(2), &json!(0.92))
    );
    let stats = score(
        &scene,
        &["stats", "-o", "json", "--ai", "--ai-url", &url],
        &[KEY],
    )
    .ok()
    .json();
    assert_eq!(
        stats["low_utilization_count"], 2,
        "statistics count measurements, not opinions"
    );
    ai.take();
    // `--ai-max` limits the cost and prefers the lowest scores. `--ai-redact` hides names.
    score(
        &scene,
        &[
            "--ai",
            "--ai-url",
            &url,
            "--ai-max",
            "1",
            "--ai-redact",
            "--ai-language",
            "zh",
            "--ai-model",
            "m-1",
        ],
        &[KEY],
    )
    .ok();
    let requests = ai.take();
    let body = requests[0].json();
    assert_eq!((requests.len(), &body["model"]), (1, &json!("m-1")));
    assert!(
        body["messages"][0]["content"]
            .as_str()
            .unwrap()
            .contains("`zh`")
            && requests[0].body.contains("\\\"idle\\\"")
    );
    for name in [pod.as_str(), "opinions-0", "\"opinions"] {
        assert!(
            !requests[0].body.contains(name),
            "{name}: {}",
            requests[0].body
        );
    }
    let table = score(&scene, &["--ai", "--ai-url", &url], &[KEY]).ok().out;
    assert!(
        table.contains("active 92%") && table.contains("每十秒计算一次"),
        "{table}"
    );
    let text = score(
        &scene,
        &["-o", "prometheus", "--ai", "--ai-url", &url],
        &[KEY],
    )
    .ok()
    .out;
    assert!(
        text.contains(
            "gpu_ai_analysis_confidence{gpu_id=\"GPU-opinions-0-0\",ai_status=\"active\",node=\"opinions-0\"} 0.92\n"
        ),
        "{text}"
    );
    assert!(
        text.contains(&format!(
            "gpu_ai_adjusted_score{{gpu_id=\"GPU-opinions-0-0\",pod=\"{pod}\",namespace=\"opinions\",node=\"opinions-0\"}} 55.5\n"
        ))
    );

    // The environment and the config file can enable the AI too. The key of the file is sent only
    // to the address of the file.
    let config = file(
        "ai.yaml",
        &format!("ai: {{enabled: false, api_url: '{url}', api_key: sk-canary-2}}\n"),
    );
    let config = ["--config", config.to_str().unwrap()];
    ai.take();
    score(&scene, &config, &[]).ok();
    assert!(ai.take().is_empty());
    let keys = |requests: Vec<crate::mock_server::Request>| {
        requests
            .iter()
            .map(|request| request.header("authorization").unwrap_or("none").to_owned())
            .collect::<Vec<_>>()
    };
    score(&scene, &config, &[("AI_ENABLED", "true")]).ok();
    assert_eq!(keys(ai.take()), ["Bearer sk-canary-2"; 4]);
    score(&scene, &config, &[("AI_ENABLED", "true"), KEY]).ok();
    assert_eq!(keys(ai.take()), ["Bearer sk-canary"; 4]);
    score(
        &scene,
        &[&config[..], &["--ai=false"]].concat(),
        &[("AI_ENABLED", "true")],
    )
    .ok();
    assert!(ai.take().is_empty());
    let elsewhere = MockServer::always(200, &completion(&verdict("idle", 1.0)));
    score(
        &scene,
        &[
            &config[..],
            &["--ai", "--ai-url", &elsewhere.url("/v1/chat/completions")],
        ]
        .concat(),
        &[],
    )
    .ok();
    assert_eq!(keys(elsewhere.take()), ["none"; 4]);
    score(&scene, &["--ai"], &[KEY])
        .exits(2)
        .says("no AI is configured");

    // Uses Anthropic's protocol.
    let claude = MockServer::always(
        200,
        &json!({"content": [{"type": "text", "text": verdict("idle", 0.8)}]}).to_string(),
    );
    let list = score(
        &scene,
        &[
            "-o",
            "json",
            "--ai",
            "--ai-url",
            &claude.url("/v1/messages"),
            "--ai-max",
            "1",
        ],
        &[KEY],
    )
    .ok()
    .json();
    assert_eq!(list[0]["ai_analysis"]["status"], "idle");
    let request = claude.take().remove(0);
    assert_eq!(
        (
            request.header("x-api-key"),
            request.header("anthropic-version")
        ),
        (Some("sk-canary"), Some("2023-06-01"))
    );
    assert!(
        request.header("authorization").is_none()
            && request.json()["max_tokens"].is_u64()
            && request.json()["system"].is_string()
    );
}

#[test]
fn a_failing_ai_warns_and_leaves_scores_unchanged() {
    let scene = Scene::new("babble", 1);
    train_in_all_bands(&scene);
    let plain = without_opinions(score(&scene, &["-o", "json"], &[]).ok().json());
    let fast = file("ai-fast.yaml", "ai: {timeout: 1, retries: 1}\n");
    let thief = MockServer::always(200, &completion(&verdict("idle", 1.0)));
    let location = format!("location: {}", thief.url("/v1/chat/completions"));
    let text = |body: &str| Reply::Text(200, body.to_owned());
    for (reply, tries, message) in [
        (text("<html>"), 1, "did not return JSON"),
        (text("{\"choices\":[]}"), 1, "returned no message"),
        (
            text(&completion("It is idle, I think.")),
            1,
            "unexpected response from the AI at",
        ),
        (
            text(&completion(&verdict("busy", 0.9))),
            1,
            "`status` is not active, idle or suspicious",
        ),
        (
            text(&completion(&verdict("idle", 9.0))),
            1,
            "`confidence` is not a number from 0 to 1",
        ),
        (
            text(&completion(&verdict("idle", 0.9)[..30])),
            1,
            "unexpected response",
        ),
        (
            Reply::Text(401, "sk-canary".to_owned()),
            1,
            "the key is missing or was rejected",
        ),
        (Reply::Text(500, String::new()), 2, "returned 500 (2 tries)"),
        (Reply::Text(429, String::new()), 2, "returned 429 (2 tries)"),
        (Reply::Half, 2, "closed the connection while responding"),
        (Reply::Reset, 2, "cannot be reached"),
        (Reply::Silence, 2, "did not respond within 1s"),
        (
            Reply::Header(307, location, String::new()),
            1,
            "redirects are not followed",
        ),
    ] {
        let bad = MockServer::start(move |_, _| reply.clone());
        let arguments = [
            "-o",
            "json",
            "--config",
            fast.to_str().unwrap(),
            "--ai",
            "--ai-max",
            "1",
            "--ai-url",
            &bad.url("/v1/chat/completions"),
        ];
        let run = score(&scene, &arguments, &[KEY])
            .ok()
            .says(message)
            .says("whose scores are unchanged");
        assert!(!run.err.contains("canary"), "{}", run.err);
        assert_eq!(run.json()[0]["ai_analysis"], Value::Null);
        assert_eq!(without_opinions(run.json()), plain, "{message}");
        assert_eq!(bad.take().len(), tries, "{message}");
    }
    assert!(
        thief.take().is_empty(),
        "neither key nor data are sent to the target of a redirect"
    );
    // A temporary error is retried, not before the time in `retry-after`.
    let busy = MockServer::start(|_, before| match before {
        0 => Reply::Header(429, "retry-after: 1".to_owned(), String::new()),
        _ => Reply::Text(200, completion(&verdict("idle", 0.9))),
    });
    let list = score(
        &scene,
        &[
            "-o",
            "json",
            "--ai",
            "--ai-max",
            "1",
            "--ai-url",
            &busy.url("/v1/chat/completions"),
        ],
        &[KEY],
    )
    .ok()
    .json();
    assert_eq!(list[0]["ai_analysis"]["status"], "idle");
    let requests = busy.take();
    let pause = requests[1].at.duration_since(requests[0].at);
    assert!(requests.len() == 2 && pause >= Duration::from_secs(1));
    // After a rejected key no further requests are sent.
    let locked = MockServer::always(403, "");
    let serial = file("ai-serial.yaml", "scheduler: {max_workers: 1}\n");
    score(
        &scene,
        &[
            "--config",
            serial.to_str().unwrap(),
            "--ai",
            "--ai-url",
            &locked.url("/v1/chat/completions"),
        ],
        &[KEY],
    )
    .ok()
    .says("the AI gave no opinion on 4 of 4 GPUs");
    assert_eq!(locked.take().len(), 1);
}
