//! Tests that `report --send` delivers reports to webhooks, chats, mail servers and files, and only
//! with `--execute` to other machines.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use gpuctl_sandbox::Persona;
use serde_json::json;

use crate::mock_server::MockServer;
use crate::past::{HOUR, Sample, hours_ago, store};
use crate::support::{Run, cluster, file, gpuctl, run};

/// A mail server without encryption. It records the mails that it accepts.
struct MailServer {
    port: u16,
    mails: Arc<Mutex<Vec<String>>>,
}

impl MailServer {
    /// `recipient_answer` is the answer to each recipient, such as `250 ok`.
    fn start(recipient_answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mails: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&mails);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                accept_mail(stream, recipient_answer, &log);
            }
        });
        Self { port, mails }
    }

    fn url(&self, more: &str) -> String {
        format!(
            "smtp://127.0.0.1:{}?tls=none&from=gpu@example.com&to=head@example.com{more}",
            self.port
        )
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.mails.lock().unwrap())
    }
}

/// Talks to one client, as RFC 5321 describes.
fn accept_mail(mut stream: TcpStream, recipient_answer: &str, log: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut answer = |text: &str| write!(stream, "{text}\r\n").is_ok();
    answer("220 mail.example.com");
    let (mut mail, mut in_data) = (String::new(), false);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if in_data {
            if line == ".\r\n" {
                log.lock().unwrap().push(std::mem::take(&mut mail));
                in_data = false;
                answer("250 ok");
            } else {
                mail.push_str(&line);
            }
            continue;
        }
        let verb = line.trim_end().get(..4).unwrap_or_default().to_uppercase();
        match verb.as_str() {
            "RCPT" => {
                mail.push_str(&line);
                answer(recipient_answer)
            }
            "DATA" => {
                in_data = true;
                answer("354 go on")
            }
            "QUIT" => {
                answer("221 bye");
                return;
            }
            _ => answer("250 ok"),
        };
    }
}

/// Two hours in which a job holds four GPUs: at 50 % in the first hour, at 25 % in the second.
pub fn history() -> Vec<Sample> {
    let mut samples = Vec::new();
    for at in (0..2 * HOUR).step_by(30) {
        let mut put = |series: String, value: i64| {
            samples.push(Sample {
                series,
                at,
                value: value.to_string(),
            });
        };
        put(
            "kube_node_status_capacity{node=\"d1\",resource=\"nvidia_com_gpu\"}".to_owned(),
            8,
        );
        let id = "namespace=\"delivery\",pod=\"train-0\",uid=\"u-train-0\"";
        let request = format!("{id},container=\"c\",node=\"d1\",resource=\"nvidia_com_gpu\"");
        put(
            format!("kube_pod_container_resource_requests{{{request}}}"),
            4,
        );
        put(
            format!("kube_pod_status_phase{{{id},phase=\"Running\"}}"),
            1,
        );
        put(
            format!("kube_pod_owner{{{id},owner_kind=\"Job\",owner_name=\"train\"}}"),
            1,
        );
        put(
            format!("kube_pod_labels{{{id},label_gpuctl_user=\"ann\"}}"),
            1,
        );
        for gpu in 0..4 {
            let device = format!("Hostname=\"d1\",gpu=\"{gpu}\",UUID=\"GPU-delivery-{gpu}\"");
            put(
                format!("DCGM_FI_DEV_GPU_UTIL{{namespace=\"delivery\",pod=\"train-0\",{device}}}"),
                if at < HOUR { 50 } else { 25 },
            );
        }
    }
    samples
}

/// Reports the second hour of a history.
fn report(store: &str, begin: i64, arguments: &[&str], environment: &[(&str, &str)]) -> Run {
    let mut command = gpuctl(cluster(), Persona::Admin);
    let (start, end) = ((begin + HOUR).to_string(), (begin + 2 * HOUR).to_string());
    command
        .args(["--prometheus", store, "report", "--start", &start])
        .args(["--end", &end])
        .args(arguments)
        .env("GPUCTL_CLUSTER_NAME", "prod")
        .envs(environment.iter().copied());
    run(command, "")
}

#[test]
fn reports_are_sent_only_with_execute() {
    let begin = hours_ago(4);
    let store = store("delivery", history(), begin);
    let report = |arguments: &[&str], environment: &[(&str, &str)]| {
        report(&store, begin, arguments, environment)
    };
    let webhook = MockServer::always(200, "");
    let mail = MailServer::start("250 ok");
    let (url, mail_url) = (webhook.url("/hook/canary"), mail.url(""));
    let receivers = ["-o", "html", "--send", &url, "--send", &mail_url];

    // Without --execute, the report is printed, and nothing leaves the machine.
    let preview = report(&receivers, &[])
        .ok()
        .says("use --execute to send the report to 2 receivers")
        .says("to head@example.com");
    assert!(
        preview.out.starts_with("<!DOCTYPE html>"),
        "{}",
        preview.out
    );
    assert!(!preview.err.contains("canary"), "{}", preview.err);
    assert!(webhook.take().is_empty() && mail.take().is_empty());

    let sent = report(&[&receivers[..], &["--execute"]].concat(), &[]).ok();
    assert!(
        sent.out.is_empty() && !sent.err.contains("canary"),
        "{}",
        sent.err
    );
    let body = webhook.take().remove(0).json();
    assert_eq!(
        (&body["cluster"], &body["media_type"], &body["title"]),
        (
            &json!("prod"),
            &json!("text/html"),
            &json!("GPU-hours by namespace in prod")
        )
    );
    let page = body["report"].as_str().unwrap();
    // Four GPUs for an hour: 4 held, 4 · 0.25 = 1 used, 3 wasted. In the hour before, 2 were used
    // and 2 wasted, so that the changes are 0 %, -50 % and +50 %.
    for part in [
        "<td data-title=\"group\">delivery</td>",
        "<td data-title=\"This window\">4.0</td><td data-title=\"Previous window\">4.0</td>\
         <td data-title=\"Change\">0\u{a0}%</td>",
        "<td data-title=\"This window\">1.0</td><td data-title=\"Previous window\">2.0</td>\
         <td data-title=\"Change\">-50\u{a0}%</td>",
        "<td data-title=\"This window\">3.0</td><td data-title=\"Previous window\">2.0</td>\
         <td data-title=\"Change\">+50\u{a0}%</td>",
        "<td data-title=\"Workload\">delivery/train</td>",
        "data-title=\"Owner\">ann</td>",
        "A bar is one hour long. Dates are in UTC.",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let text = body["text"].as_str().unwrap();
    for line in [
        "GPU-hours wasted: 3.0 (+50\u{a0}%)\n",
        "- delivery: 4.0 held, 1.0 used, 3.0 wasted\n",
        "- delivery/train (ann): 3.0 wasted of 4.0 held\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let mails = mail.take();
    assert_eq!(mails.len(), 1, "{mails:?}");
    for part in [
        "RCPT TO:<head@example.com>",
        "From: gpu@example.com",
        "Subject: GPU-hours by namespace in prod",
        "filename=\"gpu-report-prod-",
        "text/html",
    ] {
        assert!(mails[0].contains(part), "{part}: {}", mails[0]);
    }

    // The URL can come from the environment, because its path may be secret.
    let chat = MockServer::always(200, "ok");
    let receiver = chat.url("/services/canary");
    let sent = report(
        &["--send", "--execute"],
        &[("GPUCTL_REPORT_SEND", receiver.as_str())],
    )
    .ok();
    assert!(!sent.err.contains("canary"), "{}", sent.err);
    assert_eq!(chat.take().len(), 1);
}

#[test]
fn files_are_written_and_failures_are_reported() {
    let begin = hours_ago(4);
    let store = store("delivery-files", history(), begin);
    let report = |arguments: &[&str], environment: &[(&str, &str)]| {
        report(&store, begin, arguments, environment)
    };
    let folder = format!("{}/", cluster().folder().join("delivered").display());
    let written = report(&["-o", "json", "--send", &folder], &[]).ok();
    assert!(written.out.is_empty(), "{}", written.out);
    let names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names.len() == 1 && names[0].starts_with("gpu-report-prod-") && names[0].ends_with(".json"),
        "{names:?}"
    );

    // One receiver fails. The other one still gets the report.
    let mail = MailServer::start("550 no such user");
    let single = format!("{folder}week.csv");
    let url = mail.url("");
    let arguments = ["-o", "csv", "--send", &url, "--send", &single, "--execute"];
    report(&arguments, &[])
        .exits(1)
        .says("the report was not sent")
        .says("did not accept the mail");
    assert!(mail.take().is_empty());
    assert!(
        std::fs::read_to_string(&single)
            .unwrap()
            .starts_with("group,")
    );

    // Credentials are never part of an argument, and are not sent unencrypted.
    let password = [
        ("GPUCTL_SMTP_USER", "gpu"),
        ("GPUCTL_SMTP_PASSWORD", "canary"),
    ];
    let refused = report(&["--send", &url, "--execute"], &password)
        .exits(1)
        .says("tls=none disables encryption");
    assert!(!refused.err.contains("canary"), "{}", refused.err);
    for (receiver, message) in [
        (
            "https://user:canary@127.0.0.1:1/x",
            "cannot contain a user or a password",
        ),
        (
            "smtp://user:canary@127.0.0.1?from=a@b.example&to=c@d.example",
            "cannot contain a user or a password",
        ),
        ("ftp://127.0.0.1/x", "a receiver is an http://"),
        ("smtp://127.0.0.1", "needs from=ADDRESS and to=ADDRESS"),
    ] {
        let refused = report(&["--send", receiver, "--execute"], &[])
            .exits(2)
            .says(message);
        assert!(!refused.err.contains("canary"), "{}", refused.err);
    }
    report(&["--send"], &[])
        .exits(2)
        .says("no receiver is configured");
    // A password of the config file is sent only to the address in the config file.
    let secret = file("delivery-password", "canary\n");
    let text = format!(
        "report: {{send: '{url}'}}\nsmtp: {{user: gpu, password_file: '{}'}}\n",
        secret.display()
    );
    let config = file("delivery.yaml", &text);
    let config = ["--config", config.to_str().unwrap()];
    report(&[&config[..], &["--send", &url, "--execute"]].concat(), &[])
        .exits(1)
        .says("is sent only to the mail server in `report.send`");
    report(&[&config[..], &["--send", "--execute"]].concat(), &[])
        .exits(1)
        .says("tls=none disables encryption");
}
