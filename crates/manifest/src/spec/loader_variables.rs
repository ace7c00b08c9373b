//! Lists the variables and labels that a site's defaults must not set silently. A default of one
//! administrator reaches the pods of all users, so it must not change the code that a pod runs or
//! the Services that select it.
//!
//! Proxy variables such as `HTTPS_PROXY` are not listed, because sites set them for all users, and
//! they do not change which code is loaded. `create` prints them like every other variable of the
//! site.

/// Variables that change which code the loader, a shell, an interpreter, a package manager or a
/// communication library runs. Sources: ld.so(8), bash(1), the manuals of the interpreters, NCCL's
/// documentation of plugins, Open MPI's documentation of MCA parameters. The list cannot be
/// complete.
const NAMES: [&str; 122] = [
    "AWS_CONFIG_FILE",
    "BASHOPTS",
    "BASH_ENV",
    "BROWSER",
    "CC",
    "CDPATH",
    "CFLAGS",
    "CLASSPATH",
    "CMAKE_PREFIX_PATH",
    "CMAKE_TOOLCHAIN_FILE",
    "COMPILER_PATH",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "CPPFLAGS",
    "CUDA_HOME",
    "CUDA_PATH",
    "CXX",
    "CXXFLAGS",
    "C_INCLUDE_PATH",
    "DOCKER_CONFIG",
    "DOTNET_STARTUP_HOOKS",
    "EDITOR",
    "ENV",
    "ERL_AFLAGS",
    "ERL_FLAGS",
    "ERL_LIBS",
    "ERL_ZFLAGS",
    "FI_PROVIDER_PATH",
    "FLEXIBLAS",
    "GCC_EXEC_PREFIX",
    "GCONV_PATH",
    "GIO_EXTRA_MODULES",
    "GLIBC_TUNABLES",
    "GOFLAGS",
    "GRADLE_OPTS",
    "GST_PLUGIN_PATH",
    "GTK_PATH",
    "HADOOP_CLASSPATH",
    "HADOOP_CONF_DIR",
    "HF_ENDPOINT",
    "HF_MODULES_CACHE",
    "HIP_PATH",
    "HOME",
    "HOSTALIASES",
    "HSA_TOOLS_LIB",
    "ICD_PATH",
    "IFS",
    "INPUTRC",
    "IPYTHONDIR",
    "JAVA_HOME",
    "JAVA_OPTS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "JULIA_DEPOT_PATH",
    "JULIA_LOAD_PATH",
    "KRB5_CONFIG",
    "KUBECONFIG",
    "LDFLAGS",
    "LESSCLOSE",
    "LESSOPEN",
    "LIBRARY_PATH",
    "LOCPATH",
    "MAKEFLAGS",
    "MANPAGER",
    "MAVEN_OPTS",
    "NCCL_CONF_FILE",
    "NCCL_ENV_PLUGIN",
    "NCCL_GIN_PLUGIN",
    "NCCL_NET_PLUGIN",
    "NCCL_PROFILER_PLUGIN",
    "NCCL_TUNER_PLUGIN",
    "NLSPATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NVCC_APPEND_FLAGS",
    "NVCC_PREPEND_FLAGS",
    "NVSHMEM_BOOTSTRAP_PLUGIN",
    "NVSHMEM_REMOTE_TRANSPORT",
    "OBJC_INCLUDE_PATH",
    "OCL_ICD_FILENAMES",
    "OCL_ICD_VENDORS",
    "OMP_TOOL",
    "OMP_TOOL_LIBRARIES",
    "OPAL_PREFIX",
    "OPENCV_IO_PLUGINS",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PAGER",
    "PATH",
    "PERLLIB",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "PJRT_PLUGIN_LIBRARY_PATH",
    "PROMPT_COMMAND",
    "PS4",
    "PYSPARK_DRIVER_PYTHON",
    "PYSPARK_PYTHON",
    "QT_PLUGIN_PATH",
    "RAY_RUNTIME_ENV_HOOK",
    "ROCM_HOME",
    "ROCM_PATH",
    "ROCP_TOOL_LIB",
    "RUSTC_WRAPPER",
    "SASL_PATH",
    "SCALA_HOME",
    "SHELL",
    "SHELLOPTS",
    "SPARK_CONF_DIR",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "TCLLIBPATH",
    "TERMINFO",
    "TPU_LIBRARY_PATH",
    "UCX_MODULE_DIR",
    "VIRTUAL_ENV",
    "VISUAL",
    "VK_ADD_LAYER_PATH",
    "VK_DRIVER_FILES",
    "VK_ICD_FILENAMES",
    "VK_LAYER_PATH",
    "_JAVA_OPTIONS",
];
const PREFIXES: [&str; 33] = [
    "BASH_FUNC_",
    "BUNDLE_",
    "CARGO_",
    "CONDA_",
    "CORECLR_",
    "CUDA_INJECTION",
    "DYLD_",
    "GEM_",
    "GIT_",
    "JUPYTER_",
    "LD_",
    "LUA_CPATH",
    "LUA_INIT",
    "LUA_PATH",
    "NPM_CONFIG_",
    "NVTX_INJECTION",
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
    "TF_PLUGGABLE",
    "TORCHINDUCTOR_",
    "TORCH_EXTENSIONS",
    "TRITON_",
    "UV_",
    "XDG_",
    "ZDOTDIR",
];

/// Returns true if a variable changes which programs or libraries run.
pub(super) fn loads_code(name: &str) -> bool {
    // npm documents its variables in lower case, such as `npm_config_prefix`.
    let name = name.to_ascii_uppercase();
    NAMES.contains(&name.as_str()) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns true if an entry of `allow_env` matches a variable. An entry is an exact name, or a
/// prefix followed by `*`.
pub(super) fn matches_pattern(pattern: &str, name: &str) -> bool {
    pattern
        .strip_suffix('*')
        .map_or(pattern == name, |beginning| {
            !beginning.is_empty() && name.starts_with(beginning)
        })
}

/// Label keys that Services, policies and monitors often use to select pods.
const SELECTORS: [&str; 23] = [
    "app",
    "application",
    "chart",
    "component",
    "controller-uid",
    "deployment",
    "heritage",
    "instance",
    "job",
    "job-name",
    "k8s-app",
    "microservice",
    "name",
    "pod-template-hash",
    "release",
    "role",
    "run",
    "service",
    "statefulset",
    "svc",
    "tier",
    "version",
    "workload",
];

/// Returns true if a label in the defaults could make a Service or a policy select all users' pods.
pub(super) fn is_selector(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    let is_reserved = prefix == "gpuctl"
        || ["kubernetes.io", "k8s.io"]
            .iter()
            .any(|domain| prefix.ends_with(domain));
    let key = key.to_ascii_lowercase();
    is_reserved || changes_pods(&key) || SELECTORS.contains(&key.as_str())
}

/// Returns true if a label or annotation makes a webhook or a runtime inject a container, an
/// identity, a device or a network. Sources: the documentation of Istio, Linkerd, Azure Workload
/// Identity, Vault's agent injector, CDI, CRI-O and Multus.
fn changes_pods(key: &str) -> bool {
    const DOMAINS: [&str; 12] = [
        "istio.io",
        "linkerd.io",
        "azure.workload.identity",
        "hashicorp.com",
        "cdi.k8s.io",
        "cri-o.io",
        "io.kubernetes.cri-o",
        "k8s.v1.cni.cncf.io",
        "nri.io",
        "dapr.io",
        "kuma.io",
        "amazonaws.com",
    ];
    let prefix = key.split_once('/').map_or(key, |(prefix, _)| prefix);
    DOMAINS.iter().any(|domain| {
        prefix == *domain
            || prefix.ends_with(&format!(".{domain}"))
            || prefix.starts_with(&format!("{domain}."))
    })
}

/// Returns true if an annotation disables a protection of the container, makes a webhook or a
/// runtime change the pod, or belongs to gpuctl.
pub(super) fn weakens_pods(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    prefix == "gpuctl"
        || prefix.contains("apparmor.security")
        || prefix.contains("seccomp.security")
        || changes_pods(&key.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_load_programs_are_recognized() {
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
            "OMP_TOOL_LIBRARIES",
            "NVTX_INJECTION64_PATH",
            "HSA_TOOLS_LIB",
            "LUA_PATH_5_4",
            "NVCC_APPEND_FLAGS",
            "RAY_RUNTIME_ENV_HOOK",
        ] {
            assert!(loads_code(name), "{name}");
        }
        for name in [
            "NCCL_IB_HCA",
            "HTTPS_PROXY",
            "NO_PROXY",
            "HF_HOME",
            "TORCH_HOME",
            "TZ",
            "OMP_NUM_THREADS",
            "MY_PATH",
            "ENVIRONMENT",
        ] {
            assert!(!loads_code(name), "{name}");
        }
    }

    #[test]
    fn a_pattern_is_a_name_or_a_beginning() {
        assert!(
            matches_pattern("LD_PRELOAD", "LD_PRELOAD")
                && matches_pattern("PYTHON*", "PYTHONPATH")
                && matches_pattern("LD_*", "LD_")
        );
        assert!(
            !matches_pattern("LD_PRELOAD", "LD_PRELOADX")
                && !matches_pattern("*", "PATH")
                && !matches_pattern("*PATH", "PATH")
                && !matches_pattern("", "PATH")
        );
    }

    #[test]
    fn labels_that_select_pods_are_recognized() {
        for key in [
            "app",
            "App",
            "run",
            "k8s-app",
            "app.kubernetes.io/name",
            "gpuctl/pool",
            "batch.kubernetes.io/job-name",
            "sidecar.istio.io/inject",
            "azure.workload.identity/use",
        ] {
            assert!(is_selector(key), "{key}");
        }
        assert!(!is_selector("site") && !is_selector("example.com/team"));
        assert!(
            weakens_pods("container.apparmor.security.beta.kubernetes.io/main")
                && weakens_pods("gpuctl/source")
        );
        assert!(
            weakens_pods("cdi.k8s.io/gpu")
                && weakens_pods("k8s.v1.cni.cncf.io/networks")
                && weakens_pods("io.kubernetes.cri-o.Devices")
        );
        assert!(!weakens_pods("cost-center") && !weakens_pods("prometheus.io/scrape"));
    }
}
