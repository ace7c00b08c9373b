//! Managed stores of clouds: Google requires exact metric names, Amazon requires signed requests,
//! and some stores require client certificates. A proxy before a real Prometheus rejects the
//! requests that the cloud would reject. It computes signatures independently, from the AWS
//! documentation.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use aws_lc_rs::{digest, hmac};
use gpuctl_sandbox::Persona;
use serde_json::json;

use crate::past::{HOUR, Variant, ask, history, hours_ago, store};
use crate::support::{Run, cluster, file, gpuctl, run};

const SECRET: &str = "canary-of-the-secret-key";
const SESSION: &str = "canary-of-the-session";
const REGION: &str = "eu-west-1";

struct Request {
    method: String,
    path: String,
    query: String,
    /// The headers, with names in lower case.
    headers: Vec<(String, String)>,
    body: String,
}

impl Request {
    fn read(stream: &TcpStream) -> Option<(Self, String)> {
        let mut reader = BufReader::new(stream);
        let (mut head, mut line) = (String::new(), String::new());
        while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
            head.push_str(&line);
            line.clear();
        }
        let mut lines = head.lines();
        let mut first = lines.next()?.split(' ').map(ToOwned::to_owned);
        let (method, target) = (first.next()?, first.next()?);
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers
            .iter()
            .find(|(name, _)| name == "content-length")
            .map_or(0, |(_, value)| value.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = String::from_utf8(body).unwrap();
        Some((
            Self {
                method,
                path: path.to_owned(),
                query: query.to_owned(),
                headers,
                body,
            },
            head,
        ))
    }

    fn header(&self, name: &str) -> &str {
        self.headers
            .iter()
            .find(|(header, _)| header == name)
            .map_or("", |(_, value)| value)
    }

    /// Parameters of the query string and of the body.
    fn parameters(&self) -> Vec<(String, String)> {
        let both = format!("{}&{}", self.query, self.body);
        form_urlencoded::parse(both.as_bytes())
            .into_owned()
            .collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Percent-encodes every byte except letters, digits, `-`, `.`, `_` and `~`. A plus stays a plus.
fn encoded(text: &str) -> String {
    let escaped = text.replace('+', "%2B").replace('=', "%3D");
    let decoded = form_urlencoded::parse(escaped.as_bytes()).next();
    decoded.map_or(String::new(), |(text, _)| {
        text.bytes().fold(String::new(), |mut all, byte| {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    all.push(char::from(byte));
                }
                byte => write!(all, "%{byte:02X}").unwrap(),
            }
            all
        })
    })
}

/// The signature of a request by AWS Signature Version 4.
fn signature(request: &Request, day: &str, signed: &str) -> String {
    let mut pairs: Vec<String> = request
        .query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap();
            format!("{}={}", encoded(name), encoded(value))
        })
        .collect();
    pairs.sort();
    let headers: String = signed
        .split(';')
        .map(|name| format!("{name}:{}\n", request.header(name)))
        .collect();
    let hash = |text: &str| hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
    let canonical = format!(
        "{}\n{}\n{}\n{headers}\n{signed}\n{}",
        request.method,
        request.path,
        pairs.join("&"),
        hash(&request.body)
    );
    let scope = format!("{day}/{REGION}/aps/aws4_request");
    let text = format!(
        "AWS4-HMAC-SHA256\n{}\n{scope}\n{}",
        request.header("x-amz-date"),
        hash(&canonical)
    );
    let mac = |key: &[u8], text: &str| {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
            .as_ref()
            .to_vec()
    };
    let key = [REGION, "aps", "aws4_request"]
        .iter()
        .fold(mac(format!("AWS4{SECRET}").as_bytes(), day), |key, text| {
            mac(&key, text)
        });
    hex(&mac(&key, &text))
}

/// The error with which Amazon would reject a request.
fn refusal_of_amazon(request: &Request) -> Option<(u16, String)> {
    let authorization = request.header("authorization");
    let part = |name: &str| {
        authorization
            .split_once(name)
            .and_then(|(_, rest)| rest.split(',').next())
            .unwrap_or_default()
    };
    let (credential, signed, actual) = (
        part("Credential="),
        part("SignedHeaders="),
        part("Signature="),
    );
    let day = credential.split('/').nth(1).unwrap_or_default();
    let token = request.header("x-amz-security-token");
    let all_signed = ["host", "x-amz-date"]
        .iter()
        .all(|name| signed.split(';').any(|header| header == *name));
    let is_valid = credential == format!("AKIDEXAMPLE/{day}/{REGION}/aps/aws4_request")
        && request.header("x-amz-date").starts_with(day)
        && all_signed
        && token == SESSION
        && actual == signature(request, day, signed);
    (!is_valid).then(|| {
        (
            403,
            r#"{"message":"The request signature does not match"}"#.to_owned(),
        )
    })
}

fn refusal_of_google(request: &Request) -> Option<(u16, String)> {
    let has_pattern = request
        .parameters()
        .iter()
        .any(|(_, value)| value.contains("__name__=~") || value.contains("__name__!"));
    has_pattern.then(|| {
        let text = "regular expressions on __name__ are not supported";
        (
            400,
            json!({"status": "error", "errorType": "bad_data", "error": text}).to_string(),
        )
    })
}

/// Starts a proxy before a store. `refuses` returns an error for requests to reject.
fn proxy(store: &str, refuses: fn(&Request) -> Option<(u16, String)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let backend = store.trim_start_matches("http://").to_owned();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let backend = backend.clone();
            thread::spawn(move || {
                let Some((request, head)) = Request::read(&stream) else {
                    return;
                };
                if let Some((code, body)) = refuses(&request) {
                    let head = format!(
                        "HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    let _ = stream.write_all((head + &body).as_bytes());
                    return;
                }
                let mut upstream = TcpStream::connect(&backend).unwrap();
                let rest = head.split_once("\r\n").unwrap().1;
                let headers = rest
                    .lines()
                    .filter(|line| !line.to_lowercase().starts_with("connection:"));
                let headers: String = headers.map(|line| format!("{line}\r\n")).collect();
                let target = if request.query.is_empty() {
                    request.path.clone()
                } else {
                    format!("{}?{}", request.path, request.query)
                };
                let head = format!(
                    "{} {target} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n",
                    request.method
                );
                upstream
                    .write_all((head + &request.body).as_bytes())
                    .unwrap();
                let _ = std::io::copy(&mut upstream, &mut stream);
            });
        }
    });
    url
}

/// Runs gpuctl with the store in a config file.
fn run_with_config(
    config: &Path,
    cache: &str,
    variables: &[(&str, &str)],
    arguments: &[&str],
) -> Run {
    let mut command = gpuctl(cluster(), Persona::Admin);
    command
        .env("XDG_CACHE_HOME", cluster().folder().join(cache))
        .envs(variables.iter().copied());
    command
        .args(["--config", config.to_str().unwrap()])
        .args(arguments);
    run(command, "")
}

fn commands() -> [Vec<&'static str>; 8] {
    [
        vec!["stats", "cluster", "-o", "json"],
        vec!["stats", "namespaces", "-o", "json"],
        vec!["stats", "workloads", "-o", "json"],
        vec!["report", "-o", "json"],
        vec!["report", "--ettr", "--by", "team", "-o", "json"],
        vec!["snapshot", "list", "-o", "json"],
        vec!["eff", "web", "-o", "json"],
        vec![
            "stats",
            "labels",
            "--dimension-type",
            "label",
            "--dimension-key",
            "team",
            "-o",
            "json",
        ],
    ]
}

#[test]
fn exact_names_work_with_a_store_that_rejects_name_patterns() {
    let begin = hours_ago(6);
    let (start, end) = (begin.to_string(), (begin + 3 * HOUR).to_string());
    let real = store("managed-google", history(Variant::Plain).0, begin);
    let google = proxy(&real, refusal_of_google);
    let exact = file(
        "managed-google.yaml",
        &format!("prometheus: {{url: \"{google}\", exact_names: true}}\n"),
    );
    let cache = cluster().folder().join("managed-plain");
    for command in commands() {
        let command = [&command[..], &["--start", &start, "--end", &end]].concat();
        let expected = ask(&real, &cache, &command).ok().out;
        assert!(expected.len() > 100, "{command:?}: {expected}");
        assert_eq!(
            run_with_config(&exact, "managed-google", &[], &command)
                .ok()
                .out,
            expected,
            "{command:?}"
        );
    }
    for command in [["get", "heatmap"], ["get", "overview"], ["get", "health"]] {
        run_with_config(&exact, "managed-google", &[], &command).ok();
    }
    let refused = ask(&google, &cache, &["get", "heatmap"]);
    refused
        .exits(1)
        .says("regular expressions on __name__ are not supported")
        .says("prometheus.exact_names: true");
}

#[test]
fn requests_to_amazon_are_signed() {
    let begin = hours_ago(6);
    let (start, end) = (begin.to_string(), (begin + 3 * HOUR).to_string());
    let real = store("managed-amazon", history(Variant::Plain).0, begin);
    let amazon = proxy(&real, refusal_of_amazon);
    let signed = file(
        "managed-amazon.yaml",
        &format!("prometheus: {{url: \"{amazon}\", aws_region: {REGION}}}\n"),
    );
    let variables = [
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_SESSION_TOKEN", SESSION),
    ];
    let cache = cluster().folder().join("managed-plain-2");
    for command in commands() {
        let command = [&command[..], &["--start", &start, "--end", &end, "-v"]].concat();
        let expected = ask(&real, &cache, &command).ok().out;
        let run = run_with_config(&signed, "managed-amazon", &variables, &command).ok();
        assert_eq!(run.out, expected, "{command:?}");
        assert!(!run.err.contains("canary"), "{}", run.err);
    }
    // Without the variables, gpuctl gets keys from the `aws` command.
    let folder = cluster().folder().join("managed-bin");
    std::fs::create_dir_all(&folder).unwrap();
    let credentials = json!({"Version": 1, "AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": SECRET, "SessionToken": SESSION});
    let script = format!(
        "#!/bin/sh\n[ \"$*\" = 'configure export-credentials --format process' ] && echo '{credentials}'\n"
    );
    std::fs::write(folder.join("aws"), script).unwrap();
    std::fs::set_permissions(
        folder.join("aws"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    run_with_config(
        &signed,
        "managed-amazon",
        &[("PATH", &path)],
        &["get", "heatmap"],
    )
    .ok();

    let wrong_variables = [
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "canary-of-another"),
        ("AWS_SESSION_TOKEN", SESSION),
    ];
    let refused = run_with_config(
        &signed,
        "managed-amazon",
        &wrong_variables,
        &["-v", "get", "heatmap"],
    )
    .exits(5)
    .says("denied access");
    assert!(!refused.err.contains("canary"), "{}", refused.err);
    let without = run_with_config(
        &signed,
        "managed-amazon",
        &[("PATH", "/nonexistent:/usr/bin:/bin")],
        &["get", "heatmap"],
    )
    .exits(5);
    without
        .says("cannot sign requests for AWS")
        .says("aws configure export-credentials");
}

#[test]
fn a_client_certificate_authenticates() {
    let port = cluster()
        .guarded_prometheus("managed-guarded", &json!([]))
        .unwrap();
    let path_of = |name: &str| cluster().folder().join(name).display().to_string();
    let config = |name: &str, more: &str| {
        file(
            name,
            &format!(
                "prometheus: {{url: \"https://127.0.0.1:{port}\", ca_file: \"{}\"{more}}}\n",
                path_of("ca.crt")
            ),
        )
    };
    let certificate = format!(
        ", cert_file: \"{}\", key_file: \"{}\"",
        path_of("front.crt"),
        path_of("front.key")
    );
    run_with_config(
        &config("guarded.yaml", &certificate),
        "managed-guarded",
        &[],
        &["get", "heatmap"],
    )
    .ok();
    let refused = run_with_config(
        &config("guarded-without.yaml", ""),
        "managed-guarded",
        &[],
        &["get", "heatmap"],
    )
    .exits(6);
    refused
        .says("cannot reach Prometheus")
        .says("CertificateRequired")
        .says("`prometheus.cert_file`");
    let certificate_without_key = format!(", cert_file: \"{}\"", path_of("front.crt"));
    run_with_config(
        &config("guarded-half.yaml", &certificate_without_key),
        "managed-guarded",
        &[],
        &["get", "heatmap"],
    )
    .exits(2)
    .says("must be set together");
}
