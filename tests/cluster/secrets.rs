//! Tests `create secret`: values are stored in the cluster and never printed.

use serde_json::Value;

use crate::support::{Run, Scene, file, run};

const CANARY: &str = "hf_canary_0123456789";

fn with_token(scene: &Scene, arguments: &[&str]) -> Run {
    let mut command = scene.command(arguments);
    command.env("HF_TOKEN", CANARY).env("EMPTY", "");
    run(command, CANARY)
}

fn decoded(secret: &Value, key: &str) -> String {
    let text = secret["data"][key].as_str().unwrap();
    let bytes: k8s_openapi::ByteString = serde_json::from_value(text.into()).unwrap();
    String::from_utf8(bytes.0).unwrap()
}

#[test]
fn a_token_is_stored_in_the_secret_and_never_printed() {
    let scene = Scene::new("secrets");
    let path = file("canary.txt", CANARY).display().to_string();
    let mut runs = vec![
        with_token(
            &scene,
            &[
                "create",
                "secret",
                "hub",
                "--from-env",
                "HF_TOKEN",
                "--from-file",
                &format!("file={path}"),
                "-v",
            ],
        )
        .ok(),
        with_token(
            &scene,
            &[
                "create",
                "secret",
                "hub2",
                "--from-env",
                "token=HF_TOKEN",
                "-o",
                "json",
            ],
        )
        .ok(),
        with_token(
            &scene,
            &["create", "secret", "hub", "--from-env", "HF_TOKEN"],
        )
        .exits(1)
        .says("already exists")
        .says("--replace"),
        with_token(
            &scene,
            &[
                "create",
                "secret",
                "hub",
                "--from-env",
                "HF_TOKEN",
                "--replace",
                "-o",
                "yaml",
            ],
        )
        .ok(),
        with_token(&scene, &["create", "secret", "x", "--from-env", CANARY])
            .exits(2)
            .says("not the value itself"),
        with_token(
            &scene,
            &[
                "create",
                "secret",
                "x",
                "--from-file",
                &format!("key={CANARY}"),
            ],
        )
        .exits(4)
        .says("the file for key `key`"),
        with_token(
            &scene,
            &[
                "create",
                "secret",
                "x",
                "--registry",
                "r",
                "--username",
                "u",
                "--password-env",
                CANARY,
            ],
        )
        .exits(2),
        with_token(
            &scene,
            &["create", "-v", "secret", "order", "--from-env", "HF_TOKEN"],
        )
        .ok(),
        with_token(
            &scene,
            &[
                "create",
                "--name",
                "a",
                "secret",
                "x",
                "--from-env",
                "HF_TOKEN",
            ],
        )
        .exits(2),
        with_token(
            &scene,
            &[
                "create",
                "secret",
                "x",
                "--from-env",
                &format!("a={CANARY}-"),
            ],
        )
        .exits(2),
        with_token(&scene, &["create", "secret", "x", "--from-env", "EMPTY"])
            .exits(2)
            .says("`EMPTY` is not set"),
        with_token(
            &scene,
            &[
                "create",
                "secret",
                "x",
                "--from-env",
                "HF_TOKEN",
                "--from-env",
                "HF_TOKEN",
            ],
        )
        .exits(2)
        .says("key `HF_TOKEN` is specified twice"),
        with_token(
            &scene,
            &["create", "secret", "X_x", "--from-env", "bad key=HF_TOKEN"],
        )
        .exits(2),
        with_token(
            &scene,
            &[
                "create",
                "secret",
                "pull",
                "--registry",
                "r.example.com",
                "--username",
                "alice",
                "--password-stdin",
                "-v",
            ],
        )
        .ok(),
        with_token(
            &scene,
            &[
                "create",
                "secret",
                "pull2",
                "--registry",
                "r.example.com",
                "--username",
                "alice",
                "--password-env",
                "HF_TOKEN",
            ],
        )
        .ok(),
        with_token(
            &scene,
            &[
                "create",
                "secret",
                "x",
                "--registry",
                "r.example.com",
                "--username",
                "alice",
            ],
        )
        .exits(2)
        .says("--password-stdin"),
        with_token(&scene, &["create", "secret", "x"]).exits(2),
    ];
    assert_eq!(
        runs[0].out,
        "secret/hub created in secrets: HF_TOKEN, file\n"
    );
    assert_eq!(runs[1].json()["keys"], serde_json::json!(["token"]));
    let secret = scene.get(&["secret", "hub"]);
    assert_eq!(
        (
            decoded(&secret, "HF_TOKEN").as_str(),
            secret["type"].as_str()
        ),
        (CANARY, Some("Opaque"))
    );
    // `--replace` replaces the whole Secret, so keys that are not given are removed.
    assert!(secret["data"]["file"].is_null());
    for name in ["pull", "pull2"] {
        let secret = scene.get(&["secret", name]);
        let config: Value = serde_json::from_str(&decoded(&secret, ".dockerconfigjson")).unwrap();
        assert_eq!(
            (
                &config["auths"]["r.example.com"]["password"],
                &secret["type"]
            ),
            (&CANARY.into(), &"kubernetes.io/dockerconfigjson".into())
        );
    }
    scene.admin.run(&[
        "create",
        "secret",
        "generic",
        "theirs",
        "--from-literal=a=b",
        "-n",
        "secrets",
    ]);
    runs.push(
        with_token(
            &scene,
            &[
                "create",
                "secret",
                "theirs",
                "--from-env",
                "HF_TOKEN",
                "--replace",
            ],
        )
        .exits(1)
        .says("was not created by gpuctl"),
    );
    // The error may name an unset variable, because the user has to set it.
    for (index, run) in runs.iter().enumerate().filter(|(index, _)| *index != 4) {
        assert!(
            !run.out.contains(CANARY) && !run.err.contains(CANARY),
            "{index}: {} {}",
            run.out,
            run.err
        );
    }
}

#[test]
fn a_job_can_use_secrets() {
    let scene = Scene::with_nodes("use-secrets", 1);
    with_token(
        &scene,
        &["create", "secret", "hub", "--from-env", "HF_TOKEN"],
    )
    .ok();
    let extra = "environment: {image: r.example.com/x:1, imagePullSecret: pull, env: [{name: HF_TOKEN, secret: hub}]}";
    scene
        .create("a", extra)
        .says("secret `pull` does not exist in namespace `use-secrets`");
    let spec = scene.get(&["job", "a"])["spec"]["template"]["spec"].clone();
    assert_eq!(spec["imagePullSecrets"][0]["name"], "pull");
    let text = scene
        .gpuctl(&["describe", "job", "a", "-o", "json"])
        .ok()
        .out;
    assert!(!text.contains(CANARY));
}

#[test]
fn a_dry_run_stores_no_secret_and_prints_no_value() {
    let scene = Scene::new("dry-secrets");
    let secret = |extra: &[&str]| {
        let arguments = ["create", "secret", "hub", "--from-env", "HF_TOKEN"];
        with_token(&scene, &[&arguments[..], extra].concat())
    };
    for place in ["client", "server"] {
        let dry_run = format!("--dry-run={place}");
        let text = secret(&[&dry_run]).ok();
        assert_eq!(
            text.out,
            format!("secret/hub would be created in dry-secrets ({place} dry run): HF_TOKEN\n")
        );
        let document = secret(&[&dry_run, "-v", "-o", "json"]).ok();
        let answer = document.json();
        assert_eq!(
            (&answer["dryRun"], &answer["created"]),
            (&place.into(), &true.into())
        );
        for run in [&text, &document] {
            assert!(!run.out.contains(CANARY) && !run.err.contains(CANARY));
        }
        let list = scene.admin.json(&["get", "secrets", "-n", "dry-secrets"]);
        assert_eq!(list["items"], serde_json::json!([]));
    }
    secret(&[]).ok();
    secret(&["--dry-run"]).exits(1).says("already exists");
    let text = secret(&["--dry-run=server", "--replace"]).ok().out;
    assert!(
        text.starts_with("secret/hub would be replaced in dry-secrets"),
        "{text}"
    );
}
