//! Tests the `config` commands without a cluster: they show where each value comes from, never
//! print secrets, and keep the rest of the file when they edit it.
#![expect(clippy::disallowed_methods, reason = "tests arrange files")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use gpuctl::generated::{KEYS, SettingKey};
use serde_json::{Value, json};

struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("gpuctl-config-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.join("gpuctl/config.yaml")
    }

    fn write(&self, text: &str) {
        fs::create_dir_all(self.0.join("gpuctl")).unwrap();
        fs::write(self.path(), text).unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    fn run(
        &self,
        arguments: &[&str],
        environment: &[(&str, &str)],
        input: &str,
    ) -> (i32, String, String) {
        use std::io::Write;
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuctl"));
        for name in KEYS.iter().flat_map(|key| key.variables) {
            command.env_remove(name);
        }
        command
            .env("XDG_CONFIG_HOME", &self.0)
            .env("KUBECONFIG", "/nonexistent")
            .args(arguments)
            .envs(environment.iter().copied());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    fn origins(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Value {
        let arguments = [
            &["config", "view", "--show-origin", "-o", "json"],
            arguments,
        ]
        .concat();
        let (code, out, err) = self.run(&arguments, environment, "");
        assert_eq!((code, err.as_str()), (0, ""));
        serde_json::from_str(&out).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn view_shows_the_origin_of_every_value() {
    let home = Home::new("origins");
    let all = home.origins(&[], &[]);
    for key in &KEYS {
        let setting = key.name.split('.').fold(&all, |value, name| &value[name]);
        assert_eq!(setting["origin"], "default", "{}", key.name);
        assert_eq!(
            setting["value"],
            SettingKey::default_value(key),
            "{}",
            key.name
        );
    }
    home.write("prometheus: {url: http://file:9090}\nthresholds: {idle: 5}\nscheduler: {interval: 600}\nai: {api_key: sk-canary, model: m}\n");
    let all = home.origins(&[], &[("PROM_URL", "http://user:canary@host:9090")]);
    assert_eq!(
        all["prometheus"]["url"],
        json!({"value": "http://********@host:9090", "origin": "environment PROM_URL"})
    );
    assert_eq!(
        all["thresholds"]["idle"],
        json!({"value": 5, "origin": format!("file {}", home.path().display())})
    );
    assert_eq!(all["ai"]["api_key"]["value"], "********");
    // `GPUCTL_PROMETHEUS` overrides `PROM_URL`, and a flag overrides both.
    let both = [("PROM_URL", "http://a"), ("GPUCTL_PROMETHEUS", "http://b")];
    assert_eq!(
        home.origins(&[], &both)["prometheus"]["url"]["origin"],
        "environment GPUCTL_PROMETHEUS"
    );
    let flags = [
        "--prometheus",
        "http://c",
        "--prometheus-header",
        "X-Key: canary",
    ];
    let all = home.origins(&flags, &both);
    assert_eq!(
        all["prometheus"]["url"],
        json!({"value": "http://c", "origin": "flag --prometheus"})
    );
    assert_eq!(
        all["prometheus"]["headers"]["value"],
        json!({"X-Key": "********"})
    );
    let flagged = home.origins(&["--read-only"], &[])["safety"]["read_only"].clone();
    assert_eq!(
        flagged,
        json!({"value": true, "origin": "flag --read-only"})
    );
    // Each variable, with a value that is valid for its key.
    for (variable, text, name, value) in [
        ("THRESHOLD", "25", "thresholds.low_utilization", json!(25)),
        ("INTERVAL", "60", "scheduler.interval", json!(60)),
        ("AI_ENABLED", "1", "ai.enabled", json!(true)),
        ("AI_API_KEY", "canary", "ai.api_key", json!("********")),
        ("LOG_LEVEL", "DEBUG", "log.level", json!("debug")),
        (
            "GPUCTL_NOTIFY_SECRET",
            "canary",
            "notify.secret",
            json!("********"),
        ),
        (
            "GPUCTL_PROMETHEUS_TOKEN",
            "canary",
            "prometheus.token_file",
            json!("********"),
        ),
        (
            "GPUCTL_PROMETHEUS_PASSWORD",
            "canary",
            "prometheus.password_file",
            json!("********"),
        ),
        (
            "GPUCTL_PROMETHEUS_USER",
            "alice",
            "prometheus.user",
            json!("alice"),
        ),
        ("PROM_URL", "http://a", "prometheus.url", json!("http://a")),
        (
            "GPUCTL_PROMETHEUS",
            "http://a",
            "prometheus.url",
            json!("http://a"),
        ),
        ("GPUCTL_READ_ONLY", "1", "safety.read_only", json!(true)),
        ("GPUCTL_CLUSTER_NAME", "prod", "cluster.name", json!("prod")),
        (
            "GPUCTL_REPORT_SEND",
            "/reports/",
            "report.send",
            json!("********"),
        ),
        ("GPUCTL_SMTP_USER", "alice", "smtp.user", json!("alice")),
        (
            "GPUCTL_SMTP_PASSWORD",
            "canary",
            "smtp.password_file",
            json!("********"),
        ),
    ] {
        let (section, key) = name.split_once('.').unwrap();
        let setting = &home.origins(&[], &[(variable, text)])[section][key];
        assert_eq!(
            setting,
            &json!({"value": value, "origin": format!("environment {variable}")})
        );
    }
    assert_eq!(
        KEYS.iter().flat_map(|key| key.variables).count(),
        16,
        "the list above must have every variable"
    );

    for arguments in [
        &["config", "view"][..],
        &["config", "view", "--show-origin"],
        &["config", "view", "-o", "yaml"],
    ] {
        let (code, out, err) = home.run(
            arguments,
            &[("AI_API_KEY", "canary"), ("PROM_URL", "http://u:canary@h")],
            "",
        );
        assert!(
            code == 0 && !out.contains("canary") && !err.contains("canary"),
            "{out}{err}"
        );
    }
    // The output is itself a config file.
    let (_, out, _) = home.run(&["config", "view"], &[], "");
    let copy = home.0.join("copy.yaml");
    fs::write(&copy, &out).unwrap();
    assert_eq!(
        home.run(
            &["config", "view", "--config", copy.to_str().unwrap()],
            &[],
            ""
        ),
        (0, out, String::new())
    );
}

#[test]
fn invalid_values_and_unknown_keys_are_reported() {
    let home = Home::new("wrong");
    for (text, message) in [
        (
            "thresholds: {idle: low}\n",
            "`thresholds.idle` in the config file is not a number from 0 to 100",
        ),
        (
            "thresholds: {idle: 300}\n",
            "`thresholds.idle` in the config file is not a number from 0 to 100",
        ),
        (
            "ai: {enabled: 3}\n",
            "`ai.enabled` in the config file is not true or false",
        ),
        (
            "scheduler: {interval: soon}\n",
            "`scheduler.interval` in the config file is not a duration such as 30s",
        ),
        (
            "notify: {format: telegram}\n",
            "`notify.format` in the config file is not one of auto, feishu",
        ),
        ("ai: {api_key: canary\n", "is not valid YAML"),
        ("ai: {model: a}\nai: {model: b}\n", "is not valid YAML"),
    ] {
        home.write(text);
        let (code, out, err) = home.run(&["config", "view"], &[], "");
        // An invalid value does not hide the other settings. A file that is not YAML has no
        // settings.
        assert_eq!(
            (code, out.contains("scoring:")),
            (2, !message.contains("YAML")),
            "{text}"
        );
        assert!(err.contains(message) && !err.contains("canary"), "{err}");
    }
    home.write("promethues: {url: x}\nthresholds: {low_utilisation: 3, idel: 4}\nai:\n");
    let (code, _, err) = home.run(&["config", "view"], &[], "");
    assert_eq!((code, err.lines().count()), (0, 3), "{err}");
    for suggestion in [
        "`prometheus`?",
        "`thresholds.low_utilization`?",
        "`thresholds.idle`?",
    ] {
        assert!(err.contains(&format!("did you mean {suggestion}")), "{err}");
    }
    let (_, _, err) = home.run(&["config", "view", "-o", "json"], &[], "");
    assert!(
        err.lines().all(|line| serde_json::from_str::<Value>(line)
            .is_ok_and(|warning| warning["kind"] == "warning")),
        "{err}"
    );
    let (code, _, err) = home.run(
        &["config", "view", "--config", "/nonexistent.yaml"],
        &[],
        "",
    );
    assert!(
        code == 2 && err.contains("cannot read /nonexistent.yaml"),
        "{code} {err}"
    );
}

#[test]
fn set_changes_one_value_and_preserves_the_rest_of_the_file() {
    let home = Home::new("set");
    let (code, out, _) = home.run(
        &["config", "set", "prometheus.url", "http://a:9090"],
        &[],
        "",
    );
    assert_eq!(
        (code, out),
        (
            0,
            format!(
                "prometheus.url set to http://a:9090 in {}\n",
                home.path().display()
            )
        )
    );
    assert_eq!(
        fs::metadata(home.path()).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let old =
        "# ours\nprometheus:\n    url: http://a:9090   # 地址\n\nthresholds: {idle: 10} # both\n";
    home.write(old);
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o640)).unwrap();
    home.run(
        &["config", "set", "prometheus.url", "http://b:9090"],
        &[],
        "",
    );
    assert_eq!(home.text(), old.replace("http://a", "http://b"));
    home.run(&["config", "set", "thresholds.idle", "7.5"], &[], "");
    assert_eq!(
        home.text(),
        old.replace("http://a", "http://b").replace("10}", "7.5}")
    );
    assert_eq!(
        fs::metadata(home.path()).unwrap().permissions().mode() & 0o777,
        0o640,
        "the mode of the file does not change"
    );
    // A secret is read from stdin and is not printed.
    let (code, out, err) = home.run(
        &["config", "set", "ai.api_key", "-", "-o", "json"],
        &[("AI_API_KEY", "other")],
        "sk-canary\n",
    );
    assert!(
        code == 0 && !out.contains("canary") && home.text().contains("sk-canary"),
        "{out}"
    );
    assert_eq!(
        serde_json::from_str::<Value>(&out).unwrap()["key"],
        "ai.api_key"
    );
    assert!(
        err.contains("AI_API_KEY in the environment takes precedence"),
        "{err}"
    );
    let before = home.text();
    for (arguments, message) in [
        (["thresholds.idel", "5"], "did you mean `thresholds.idle`?"),
        (["thresholds.idle", "500"], "a number from 0 to 100"),
        (["ai.enabled", "maybe"], "true or false"),
        (["prometheus.headers", "x"], "edit the file by hand"),
        (["namespace", "Pml_A"], "a namespace of lower-case letters"),
    ] {
        let (code, out, err) = home.run(&["config", "set", arguments[0], arguments[1]], &[], "");
        assert!(
            (code, out.as_str()) == (2, "") && err.contains(message),
            "{err}"
        );
    }
    assert_eq!(home.text(), before);
    // Every key accepts its own default.
    for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
        let (code, _, err) = home.run(&["config", "set", key.name, key.default], &[], "");
        assert_eq!(code, 0, "{}: {err}", key.name);
        let (section, name) = key.name.split_once('.').unwrap();
        let setting = &home.origins(&[], &[])[section][name];
        assert!(
            setting["origin"].as_str().unwrap().starts_with("file "),
            "{}",
            key.name
        );
        assert_eq!(
            setting["value"],
            SettingKey::default_value(key),
            "{}",
            key.name
        );
    }
    assert!(
        home.text()
            .starts_with("# ours\nprometheus:\n    url: http://b:9090   # 地址\n"),
        "{}",
        home.text()
    );
    // `set` leaves a file alone if it cannot edit the file's layout.
    home.write("{ai: {model: a}, \"thresholds\": 3}\n");
    let (code, _, err) = home.run(&["config", "set", "thresholds.idle", "5"], &[], "");
    assert!(
        code == 2
            && err.contains("by hand")
            && home.text() == "{ai: {model: a}, \"thresholds\": 3}\n",
        "{code} {err} {}",
        home.text()
    );
}

#[test]
fn get_prints_one_value_and_unset_removes_it() {
    let home = Home::new("unset");
    let file = "# ours\nprometheus:\n  url: http://a:9090   # the address\n\
                thresholds: {idle: 7.5}\nai:\n  api_key: sk-canary\n";
    home.write(file);
    let get = |key: &str, environment: &[(&str, &str)]| {
        let (code, out, err) = home.run(&["config", "get", key], environment, "");
        assert_eq!((code, err.as_str()), (0, ""), "{key}");
        out
    };
    assert_eq!(get("prometheus.url", &[]), "http://a:9090\n");
    assert_eq!(
        get("prometheus.url", &[("PROM_URL", "http://b")]),
        "http://b\n"
    );
    assert_eq!(get("thresholds.idle", &[]), "7.5\n");
    assert_eq!(get("namespace", &[]), "\n");
    assert_eq!(get("ai.api_key", &[]), "********\n");
    let json_of = |arguments: &[&str]| {
        let (code, out, err) = home.run(&[arguments, &["-o", "json"]].concat(), &[], "");
        assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let origin = format!("file {}", home.path().display());
    assert_eq!(
        json_of(&["config", "get", "thresholds.idle"]),
        json!({"key": "thresholds.idle", "value": 7.5, "origin": origin})
    );
    // The rest of the file stays, and the default applies again.
    let (code, out, _) = home.run(&["config", "unset", "prometheus.url"], &[], "");
    let message = format!(
        "prometheus.url removed from {}: now no value\n",
        home.path().display()
    );
    assert_eq!((code, out), (0, message));
    assert_eq!(
        home.text(),
        "# ours\nthresholds: {idle: 7.5}\nai:\n  api_key: sk-canary\n"
    );
    let idle = json_of(&["config", "unset", "thresholds.idle"]);
    let default = SettingKey::default_value(SettingKey::find("thresholds.idle").unwrap());
    assert_eq!(
        idle,
        json!({"key": "thresholds.idle", "value": default, "origin": "default"})
    );
    let before = home.text();
    let (code, out, _) = home.run(&["config", "unset", "thresholds.idle"], &[], "");
    assert!(code == 0 && out.contains("was not in"), "{out}");
    for verb in ["get", "unset"] {
        let (code, out, err) = home.run(&["config", verb, "thresholds.idel"], &[], "");
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.contains("did you mean `thresholds.idle`?"), "{err}");
    }
    assert_eq!(home.text(), before);
    home.run(&["config", "unset", "ai.api_key"], &[], "");
    assert_eq!(home.text(), "# ours\n");
    home.run(&["config", "set", "namespace", "team-a"], &[], "");
    assert_eq!(get("namespace", &[]), "team-a\n");
}
