//! Explains why a log of an ended container cannot be read.

use gpuctl_core::model::Pod;
use gpuctl_core::model::facts::state::pod_name;

/// Beginning of the line that the kubelet sends in place of a log that it no longer has. Source:
/// kubernetes 1.36, pkg/kubelet/kuberuntime/kuberuntime_container.go.
const NO_LOG_LINE: &str = "unable to retrieve container logs for ";

/// Whether a line is the kubelet's note that it no longer has the log.
pub fn is_lost_log(line: &str) -> bool {
    line.starts_with(NO_LOG_LINE)
}

/// Explains why a pod's log cannot be read, from the error of the API server or the kubelet, or
/// from a line for which [`is_lost_log`] holds. Quotes an unknown error.
pub fn log_gap(pod: &Pod, error: &str) -> String {
    let node = pod.node.as_deref().unwrap_or("(no node)");
    let is_gone = |kind: &str| error.starts_with(kind) && error.ends_with("\" not found");
    let reason = match error {
        _ if is_lost_log(error)
            || error.starts_with("failed to try resolving symlinks in path") =>
        {
            format!("node {node} has removed the container or its log file")
        }
        _ if error.starts_with("previous terminated container ") => {
            format!("node {node} has removed its previous container")
        }
        // The API server quotes its request to the kubelet.
        _ if error.starts_with("Get \"https://") && error.contains("/containerLogs/") => {
            let detail = error.rsplit("\": ").next().unwrap_or(error);
            format!("node {node} does not respond ({detail})")
        }
        _ if is_gone("nodes \"") => format!("node {node} was deleted"),
        _ if is_gone("pods \"") => "the pod was deleted".to_owned(),
        _ => error.to_owned(),
    };
    format!("the log of {} cannot be read: {reason}", pod_name(pod))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_api_servers_and_kubelets_are_explained() {
        let pod = Pod {
            name: "t-0".into(),
            rank: Some(0),
            node: Some("n".into()),
            ..Pod::default()
        };
        for (error, reason) in [
            (
                "unable to retrieve container logs for containerd://4f1c",
                "node n has removed the container or its log file",
            ),
            (
                "previous terminated container \"main\" in pod \"t-0\" not found",
                "node n has removed its previous container",
            ),
            (
                "Get \"https://10.0.0.7:10250/containerLogs/a/t-0/main\": dial tcp 10.0.0.7:10250: connect: no route to host",
                "node n does not respond (dial tcp 10.0.0.7:10250: connect: no route to host)",
            ),
            ("nodes \"n\" not found", "node n was deleted"),
            ("pods \"t-0\" not found", "the pod was deleted"),
            ("something new", "something new"),
        ] {
            assert_eq!(
                log_gap(&pod, error),
                format!("the log of rank 0 cannot be read: {reason}")
            );
        }
    }
}
