//! Runs `validate`, `schema`, `explain`, `init` and `convert` without a cluster, as people and
//! scripts run them. For every check there is a file that triggers it, and a snapshot holds the
//! reported text.
#![expect(clippy::disallowed_methods, reason = "tests read and write files")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gpuctl_manifest::spec::checks::{CHECKS, can_be_silenced};
use gpuctl_sandbox::Tty;
use serde_json::Value;

fn gpuctl(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gpuctl"))
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spec/checks"))
        .env("KUBECONFIG", "/nonexistent")
        .env("NO_COLOR", "1")
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
    child.wait_with_output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn json(output: &Output) -> Value {
    serde_json::from_str(&out(output)).unwrap_or_else(|error| panic!("{error}: {}", out(output)))
}

#[test]
fn every_check_reports_its_file_and_can_be_ignored() {
    let mut text = String::new();
    for check in CHECKS
        .iter()
        .filter(|check| !check.id.starts_with("cluster"))
    {
        let file = format!("{}.yaml", check.id);
        let output = gpuctl(&["validate", "-f", &file, "-o", "json"], "");
        let value = json(&output);
        let problems = value["files"][0]["problems"].as_array().unwrap();
        assert!(
            problems.iter().all(|problem| problem["id"] == check.id),
            "{file}: {value:#}"
        );
        let severity = if value["errors"].as_u64() > Some(0) {
            "error"
        } else {
            "warning"
        };
        assert_eq!(
            output.status.code(),
            Some(if severity == "error" { 3 } else { 0 }),
            "{file}"
        );
        // A document that cannot be rendered may have no single field at fault, so no line is
        // required.
        let has_line = |problem: &Value| problem["line"].is_number() || check.id == "unfit";
        assert!(
            problems
                .iter()
                .all(|problem| problem["severity"] == severity && has_line(problem)),
            "{value:#}"
        );
        let strict = gpuctl(&["validate", "-f", &file, "--strict"], "");
        assert_eq!(strict.status.code(), Some(3), "{file}");
        text.push_str(&out(&strict));
        // A comment can suppress a check, unless the check is an error that must not be suppressed.
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/spec/checks")
            .join(&file);
        let ignoring = format!(
            "# gpuctl: ignore {}\n{}",
            check.id,
            std::fs::read_to_string(path).unwrap()
        );
        let code = gpuctl(&["validate", "-f", "-", "--strict"], &ignoring)
            .status
            .code();
        assert_eq!(
            code,
            Some(if can_be_silenced(check) { 0 } else { 3 }),
            "{file}"
        );
    }
    insta::assert_snapshot!("checks", text);
}

#[test]
fn every_check_is_explained() {
    let mut text = String::new();
    for check in &CHECKS {
        let explained = gpuctl(&["validate", "--explain", check.id], "");
        assert!(explained.status.success());
        text.push_str(&out(&explained));
        text.push('\n');
    }
    insta::assert_snapshot!("explained", text);
    assert_eq!(
        gpuctl(&["validate", "--explain", "nothing"], "")
            .status
            .code(),
        Some(2)
    );
    assert_eq!(gpuctl(&["validate"], "").status.code(), Some(2));
}

#[test]
fn validate_reports_the_problems_of_all_files() {
    let all = gpuctl(&["validate", "-f", ".", "-o", "json"], "");
    let value = json(&all);
    assert_eq!(all.status.code(), Some(3));
    assert_eq!(value["files"].as_array().unwrap().len(), CHECKS.len() - 2);
    assert!(value["errors"].as_u64() > Some(5) && value["warnings"].as_u64() > Some(5));
    // A file that cannot be read fails the command.
    let unreadable = gpuctl(&["validate", "-f", "nothing.yaml", "-o", "json"], "");
    assert_eq!(
        (unreadable.status.code(), out(&unreadable).as_str()),
        (Some(4), "")
    );
    // The path of a URL may contain a token.
    let url = gpuctl(
        &[
            "validate",
            "-f",
            "https://example.com/job.yaml?token=canary",
        ],
        "",
    );
    let message = String::from_utf8_lossy(&url.stderr).into_owned();
    assert_eq!(url.status.code(), Some(2));
    assert!(
        message.contains("`https://example.com` is a URL, not a file"),
        "{message}"
    );
    assert!(
        message.contains("curl -fsSL URL | gpuctl apply -f -"),
        "{message}"
    );
    assert!(!message.contains("canary"), "{message}");
    // Only `--server` needs a cluster, and the kubeconfig of these tests does not exist.
    assert_eq!(
        gpuctl(&["validate", "-f", "port.yaml", "--server"], "")
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn init_writes_a_valid_file_and_overwrites_it_only_with_force() {
    let folder: PathBuf = std::env::temp_dir().join(format!("gpuctl-init-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for kind in [
        "training",
        "inference",
        "notebook",
        "compute",
        "pool",
        "quota",
    ] {
        let file = folder.join(format!("{kind}.yaml"));
        let name = file.to_str().unwrap();
        assert!(
            gpuctl(&["init", kind, "--output", name], "")
                .status
                .success()
        );
        let strict = gpuctl(&["validate", "-f", name, "--strict"], "");
        assert!(strict.status.success(), "{}", out(&strict));
        assert_eq!(
            gpuctl(&["init", kind, "--output", name], "").status.code(),
            Some(1)
        );
        assert!(
            gpuctl(&["init", kind, "--output", name, "--force"], "")
                .status
                .success()
        );
        assert_eq!(
            out(&gpuctl(&["init", kind], "")),
            std::fs::read_to_string(&file).unwrap()
        );
    }
    assert_eq!(gpuctl(&["init", "nothing"], "").status.code(), Some(2));
    assert_eq!(
        gpuctl(&["init", "training", "--output", "/dev/null/a.yaml"], "")
            .status
            .code(),
        Some(1)
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn explain_describes_a_field_and_schema_is_a_json_schema() {
    let text = out(&gpuctl(&["explain", "training.resources.gpu-type"], ""));
    assert!(
        text.contains("FIELD: training.resources.gpu-type <GPU type>")
            && text.contains("ALSO WRITTEN: gpu_type, gpuType"),
        "{text}"
    );
    let value = json(&gpuctl(&["explain", "service.port", "-o", "json"], ""));
    assert_eq!(
        (&value["kind"], &value["required"]),
        (&"inference".into(), &true.into())
    );
    let unknown = gpuctl(&["explain", "training.resources.gpus"], "");
    assert_eq!(unknown.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("did you mean `gpu`?"));
    let schema = json(&gpuctl(&["schema"], ""));
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    assert_eq!(schema["oneOf"].as_array().unwrap().len(), 7);
    assert_eq!(
        json(&gpuctl(&["schema", "pool"], ""))["title"],
        "gpuctl pool"
    );
}

#[test]
fn convert_translates_a_job_and_reports_fields_it_drops() {
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: bert}\nspec:\n  suspend: true\n  template: {spec: {containers: [{name: a, image: 'b:1', resources: {limits: {nvidia.com/gpu: 2}}}]}}\n";
    let converted = gpuctl(&["convert", "-f", "-"], job);
    assert!(converted.status.success());
    let text = out(&converted);
    assert!(
        text.starts_with("# from Job/bert\n# not carried over: spec.suspend\nkind: training\n"),
        "{text}"
    );
    assert!(
        String::from_utf8_lossy(&converted.stderr)
            .contains("warning: Job/bert: not converted: spec.suspend")
    );
    // The output is a valid file.
    let validated = gpuctl(&["validate", "-f", "-", "--strict"], &text);
    assert!(validated.status.success(), "{}", out(&validated));
    let value = json(&gpuctl(&["convert", "-f", "-", "-o", "json"], job));
    assert_eq!(
        (
            &value["items"][0]["document"]["resources"]["gpu"],
            &value["items"][0]["notCarriedOver"][0]
        ),
        (&2.into(), &"spec.suspend".into())
    );
    let script = "#!/bin/sh\n#SBATCH --array=1-9\npython a.py\n";
    let refused = gpuctl(&["convert", "-f", "-", "-o", "json"], script);
    assert_eq!(
        (refused.status.code(), out(&refused).as_str()),
        (Some(3), "")
    );
    assert_eq!(
        gpuctl(&["convert", "-f", "nothing.yaml"], "").status.code(),
        Some(4)
    );
    assert_eq!(gpuctl(&["convert"], "").status.code(), Some(2));
}

#[test]
fn output_goes_through_the_requested_pager() {
    let line = "trap : INT; \"$GPUCTL\" --pager version; echo first $?; GPUCTL_PAGER='sed s/^/own:/' \"$GPUCTL\" version; \"$GPUCTL\" --pager version | sed s/^/piped:/; \
        GPUCTL_PAGER=no-such-pager \"$GPUCTL\" version; \
        PAGER='trap \"\" INT; cat; sleep 2; echo left' \"$GPUCTL\" --pager version; echo last $?; sleep 60";
    let mut tty = Tty::start(
        line,
        (80, 24),
        &[
            ("GPUCTL", env!("CARGO_BIN_EXE_gpuctl")),
            ("PAGER", "sed s/^/paged:/"),
        ],
    );
    let screen = tty.sees("piped:gpuctl");
    assert!(
        screen.contains("paged:gpuctl 0.2.0\nfirst 0\nown:gpuctl 0.2.0\npiped:gpuctl"),
        "{screen}"
    );
    // If the pager is missing, the output is still printed.
    tty.until("the output appears without a pager", |text| {
        text.contains("no-such-pager: not found\ngpuctl 0.2.0")
    });
    tty.until("the last pager shows the output", |text| {
        text.contains("not found\ngpuctl 0.2.0\ngpuctl 0.2.0")
    });
    // Ctrl-C is for the pager, where it stops a search. It must not interrupt gpuctl.
    tty.press("\u{3}");
    let screen = tty.sees("last");
    assert!(screen.contains("left\nlast 0"), "{screen}");
}
