//! Tests the plugin policy with files and programs in a temporary folder.
#![expect(clippy::disallowed_methods, reason = "tests arrange files")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::*;

const HEADER: &str = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n";

/// A folder with two programs in `bin/` and a file that is not executable.
struct PluginFolder(PathBuf);

impl PluginFolder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("kuberc-{}-{name}", std::process::id()));
        fs::create_dir_all(folder.join("bin")).unwrap();
        for program in ["login", "other"] {
            platform::make_executable(&File::create(folder.join("bin").join(program)).unwrap())
                .unwrap();
        }
        File::create(folder.join("bin/data")).unwrap();
        Self(folder)
    }

    fn program(&self, name: &str) -> String {
        self.0.join("bin").join(name).display().to_string()
    }

    /// Writes a policy and returns the permitted program or the reason for refusal.
    fn permit(&self, policy: &str, command: &str) -> String {
        let file = self.0.join("kuberc");
        fs::write(&file, format!("{HEADER}{policy}")).unwrap();
        let kuberc = Kuberc {
            file: Some(file.clone()),
            is_explicit: false,
            search_path: vec!["relative".into(), self.0.join("bin")],
        };
        match kuberc.permit(command) {
            Ok(program) => program.display().to_string(),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(&file.display().to_string()), "{text}");
                text.replace(&file.display().to_string(), "FILE")
            }
        }
    }
}

impl Drop for PluginFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn policies_without_a_list_allow_all_or_none() {
    let folder = PluginFolder::new("simple");
    for policy in [
        "",
        "credentialPluginPolicy: AllowAll\n",
        "defaults: []\naliases: []\n",
    ] {
        assert_eq!(folder.permit(policy, "any"), "any", "{policy}");
    }
    assert_eq!(
        folder.permit("credentialPluginPolicy: DenyAll\n", "login"),
        "is not allowed: FILE sets `credentialPluginPolicy: DenyAll`"
    );
}

#[test]
fn a_list_allows_the_same_program_by_name_or_path() {
    let folder = PluginFolder::new("list");
    let list = |entries: &str| {
        format!("credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n{entries}")
    };
    let (login, other) = (folder.program("login"), folder.program("other"));
    for entry in [
        "command: login",
        "name: login",
        &format!("command: {login}"),
    ] {
        let policy = list(&format!("- {entry}\n- command: nosuch\n"));
        for command in [
            "login",
            &login,
            &format!("{}/./login", folder.program("../bin")),
        ] {
            assert_eq!(folder.permit(&policy, command), login, "{entry}: {command}");
        }
        let refused = "is not allowed: it is not in `credentialPluginAllowlist` of FILE";
        assert_eq!(folder.permit(&policy, "other"), refused, "{entry}");
        assert_eq!(folder.permit(&policy, &other), refused, "{entry}");
        // Windows has no executable bit, so `data` counts as a program there.
        let missing: &[&str] = if cfg!(windows) {
            &["nosuch"]
        } else {
            &["nosuch", "data"]
        };
        for missing in missing {
            assert_eq!(
                folder.permit(&policy, missing),
                "is not found in PATH, so FILE cannot allow it",
                "{entry}"
            );
        }
    }
    // Allowlist entries are literal paths, not patterns.
    let refused = "is not allowed: it is not in `credentialPluginAllowlist` of FILE";
    assert_eq!(folder.permit(&list("- command: '*'\n"), "login"), refused);
}

#[test]
fn a_program_elsewhere_with_a_listed_name_is_refused() {
    let folder = PluginFolder::new("elsewhere");
    let copy = folder.0.join("login");
    platform::make_executable(&File::create(&copy).unwrap()).unwrap();
    let policy =
        "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: login}]\n";
    let refused = "is not allowed: it is not in `credentialPluginAllowlist` of FILE";
    assert_eq!(folder.permit(policy, &copy.display().to_string()), refused);
}

#[test]
fn contradictions_permit_nothing() {
    let folder = PluginFolder::new("invalid");
    let list = "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: ";
    for (policy, reason) in [
        (
            "credentialPluginPolicy: Some\n",
            "is not AllowAll, DenyAll or Allowlist",
        ),
        (
            "credentialPluginPolicy: Allowlist\n",
            "needs `credentialPluginAllowlist`",
        ),
        (
            "credentialPluginAllowlist: [{command: a}]\n",
            "needs `credentialPluginPolicy: Allowlist`",
        ),
        (
            "credentialPluginPolicy: DenyAll\ncredentialPluginAllowlist: []\n",
            "needs `credentialPluginPolicy: Allowlist`",
        ),
        (
            &format!("{list}[]\n"),
            "is empty; `DenyAll` allows no plugin",
        ),
        (
            &format!("{list}[{{}}]\n"),
            "entry 1 of `credentialPluginAllowlist` is empty",
        ),
        (
            &format!("{list}[{{command: a, name: b}}]\n"),
            "has different values",
        ),
        (
            &format!("{list}[{{command: /bin//login}}]\n"),
            "is not a normalized path",
        ),
        (
            &format!("{list}[{{command: ./login}}]\n"),
            "is not a normalized path",
        ),
        (
            "credentialPluginPolicy: [\n",
            "it is not valid YAML for kuberc",
        ),
    ] {
        let error = folder.permit(policy, "login");
        assert!(error.contains(reason), "{policy}: {error}");
    }
}

#[test]
fn only_a_named_file_must_exist() {
    let kuberc = |is_explicit| Kuberc {
        file: Some("/nosuch/kuberc".into()),
        is_explicit,
        search_path: Vec::new(),
    };
    assert_eq!(kuberc(false).permit("login").unwrap(), Path::new("login"));
    let error = kuberc(true).permit("login").unwrap_err().to_string();
    assert!(error.contains("cannot read /nosuch/kuberc"), "{error}");
    let off = Kuberc::default();
    assert_eq!(off.permit("login").unwrap(), Path::new("login"));
}

#[test]
fn the_first_document_with_preferences_counts() {
    let policy_of = |text: &str| policy(text).map_err(|problem| problem.0);
    let deny = format!("{HEADER}credentialPluginPolicy: DenyAll\n");
    assert_eq!(
        policy_of(&format!("---\n{deny}---\n{HEADER}")),
        Ok(PluginPolicy::DenyAll)
    );
    assert_eq!(
        policy_of(&format!("kind: Other\n---\n{deny}")),
        Ok(PluginPolicy::DenyAll)
    );
    assert_eq!(policy_of(""), Ok(PluginPolicy::AllowAll));
    assert!(
        policy_of("kind: Preference\n")
            .unwrap_err()
            .contains("no document of the kind")
    );
}
