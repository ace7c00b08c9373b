//! Lists the variables and labels that a site's defaults cannot set silently. One person writes a
//! default, and it reaches the pods of all users. It must not change the program in a pod or the
//! senders of its traffic.
//!
//! Proxies (`HTTPS_PROXY`) are not in the list: sites set them for all users, and they do not
//! change which code is loaded. `create` lists them like every other variable of the site.

/// Variables that change the code that the loader, a shell, an interpreter, a package manager or a
/// communication library runs. Sources: ld.so(8), bash(1), the manuals of the interpreters, NCCL's
/// documentation of plugins, Open MPI's of MCA parameters. No such list is complete.
const NAMES: [&str; 64] = [
    "BASHOPTS",
    "BASH_ENV",
    "BROWSER",
    "CC",
    "CDPATH",
    "CLASSPATH",
    "CPATH",
    "CUDA_HOME",
    "CUDA_INJECTION64_PATH",
    "CUDA_PATH",
    "CXX",
    "DOTNET_STARTUP_HOOKS",
    "EDITOR",
    "ENV",
    "FI_PROVIDER_PATH",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "GOFLAGS",
    "HF_ENDPOINT",
    "HF_MODULES_CACHE",
    "HOME",
    "IFS",
    "IPYTHONDIR",
    "JAVA_OPTS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "JULIA_DEPOT_PATH",
    "JULIA_LOAD_PATH",
    "LESSCLOSE",
    "LESSOPEN",
    "LIBRARY_PATH",
    "LOCPATH",
    "LUA_CPATH",
    "LUA_INIT",
    "LUA_PATH",
    "MAKEFLAGS",
    "MANPAGER",
    "NCCL_CONF_FILE",
    "NCCL_ENV_PLUGIN",
    "NCCL_GIN_PLUGIN",
    "NCCL_NET_PLUGIN",
    "NCCL_PROFILER_PLUGIN",
    "NCCL_TUNER_PLUGIN",
    "NLSPATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "OPAL_PREFIX",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PAGER",
    "PATH",
    "PERLLIB",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "PROMPT_COMMAND",
    "PS4",
    "RUSTC_WRAPPER",
    "SHELL",
    "SHELLOPTS",
    "UCX_MODULE_DIR",
    "VIRTUAL_ENV",
    "VISUAL",
    "_JAVA_OPTIONS",
];
const PREFIXES: [&str; 27] = [
    "BASH_FUNC_",
    "BUNDLE_",
    "CARGO_",
    "CONDA_",
    "CORECLR_",
    "DYLD_",
    "GEM_",
    "GIT_",
    "JUPYTER_",
    "LD_",
    "NPM_CONFIG_",
    "OMPI_MCA_",
    "PERL5",
    "PIP_",
    "PMIX_MCA_",
    "PRTE_MCA_",
    "PYTHON",
    "RUBY",
    "R_ENVIRON",
    "R_LIBS",
    "R_PROFILE",
    "TORCHINDUCTOR_",
    "TORCH_EXTENSIONS",
    "TRITON_",
    "UV_",
    "XDG_",
    "ZDOTDIR",
];

/// Whether a variable changes which programs or libraries run.
#[must_use]
pub(super) fn changes_what_runs(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    NAMES.contains(&name.as_str()) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a pattern of `allow_env` matches a variable: an exact name, or a prefix followed by `*`.
#[must_use]
pub(super) fn allows(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |beginning| !beginning.is_empty() && name.starts_with(beginning))
}

/// Label keys that Services, policies and monitors often select pods by.
const SELECTORS: [&str; 12] = [
    "app",
    "application",
    "chart",
    "component",
    "heritage",
    "instance",
    "job-name",
    "k8s-app",
    "name",
    "release",
    "role",
    "tier",
];

/// Whether a label of the defaults could make a Service or a policy select the pods of all users.
#[must_use]
pub(super) fn is_selector(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    let is_reserved = prefix == "gpuctl" || ["kubernetes.io", "k8s.io"].iter().any(|domain| prefix.ends_with(domain));
    let key = key.to_ascii_lowercase();
    is_reserved || SELECTORS.contains(&key.as_str()) || matches!(key.as_str(), "controller-uid" | "pod-template-hash" | "service")
}

/// Whether an annotation of the defaults disables a protection of the container, or belongs to
/// gpuctl.
#[must_use]
pub(super) fn weakens(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    prefix == "gpuctl" || prefix.contains("apparmor.security") || prefix.contains("seccomp.security")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_loads_programs_is_known_by_name() {
        for name in [
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "BASH_ENV",
            "ENV",
            "PYTHONSTARTUP",
            "PYTHONPATH",
            "PATH",
            "PERL5OPT",
            "RUBYOPT",
            "GIT_SSH_COMMAND",
            "npm_config_prefix",
            "PIP_INDEX_URL",
            "NCCL_NET_PLUGIN",
            "BASH_FUNC_ls%%",
            "R_LIBS_USER",
            "TORCHINDUCTOR_CACHE_DIR",
            "NCCL_CONF_FILE",
            "MAKEFLAGS",
            "HF_ENDPOINT",
        ] {
            assert!(changes_what_runs(name), "{name}");
        }
        for name in
            ["NCCL_IB_HCA", "HTTPS_PROXY", "NO_PROXY", "HF_HOME", "TORCH_HOME", "TZ", "OMP_NUM_THREADS", "MY_PATH", "ENVIRONMENT"]
        {
            assert!(!changes_what_runs(name), "{name}");
        }
    }

    #[test]
    fn a_pattern_is_a_name_or_a_beginning() {
        assert!(allows("LD_PRELOAD", "LD_PRELOAD") && allows("PYTHON*", "PYTHONPATH") && allows("LD_*", "LD_"));
        assert!(!allows("LD_PRELOAD", "LD_PRELOADX") && !allows("*", "PATH") && !allows("*PATH", "PATH") && !allows("", "PATH"));
    }

    #[test]
    fn labels_that_select_pods_are_known() {
        for key in ["app", "App", "k8s-app", "app.kubernetes.io/name", "gpuctl/pool", "batch.kubernetes.io/job-name"] {
            assert!(is_selector(key), "{key}");
        }
        assert!(!is_selector("site") && !is_selector("example.com/team"));
        assert!(weakens("container.apparmor.security.beta.kubernetes.io/main") && weakens("gpuctl/source"));
        assert!(!weakens("cost-center") && !weakens("prometheus.io/scrape"));
    }
}
