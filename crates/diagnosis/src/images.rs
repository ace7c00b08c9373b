//! Explains why an image cannot be pulled: by the kubelet's reason, then by the error of the
//! runtime or the registry. Errors are wrapped (`outer: inner`), so each inner error is compared as
//! a whole. Sources: kubelet 1.36 (pkg/kubelet/images), containerd 2.2 (core/remotes/docker,
//! core/images), CRI-O 1.34 (containers/image) and Docker 28.

use super::answer::Cause;
use super::facts::Facts;
use super::message_pattern::{MessagePattern, captures, word_of};
use gpuctl_core::model::Pod;
use gpuctl_core::model::facts::state::pod_name;

/// Reasons of the kubelet that name one cause (pkg/kubelet/images/types.go).
const REASONS: [(&str, &str); 4] = [
    ("InvalidImageName", "image-missing"),
    ("ErrImageNeverPull", "image-missing"),
    ("RegistryUnavailable", "registry-unreachable"),
    ("SignatureValidationFailed", "image-policy"),
];

/// Reasons of a container whose image is not there.
pub(super) const PULL_REASONS: [&str; 7] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "ImageInspectError",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];

/// Registries that hide private images send the same answer for missing images and missing rights.
const HIDDEN: &str = "missing-or-denied";

/// Errors of runtimes and registries. The first match wins.
const ERRORS: [MessagePattern; 72] = [
    // Kubelet: reasons inside a message of `ImagePullBackOff`.
    ("RegistryUnavailable: {}", "registry-unreachable"),
    ("SignatureValidationFailed: {}", "image-policy"),
    ("pull QPS exceeded", "image-rate-limit"),
    // containerd and Docker: access. Docker Hub, GitHub, Quay and Google hide whether a private
    // image exists.
    (
        "pull access denied, repository does not exist or may require authorization{}",
        HIDDEN,
    ),
    (
        "pull access denied for {}, repository does not exist or may require 'docker login'{}",
        HIDDEN,
    ),
    (
        "failed to fetch anonymous token: unexpected status from {}: 401 Unauthorized",
        HIDDEN,
    ),
    (
        "failed to fetch anonymous token: unexpected status from {}: 403 Forbidden",
        HIDDEN,
    ),
    (
        "failed to fetch anonymous token: unexpected status: 401 Unauthorized",
        HIDDEN,
    ),
    (
        "failed to fetch anonymous token: unexpected status: 403 Forbidden",
        HIDDEN,
    ),
    (
        "denied: requested access to the resource is denied{}",
        HIDDEN,
    ),
    ("requested access to the resource is denied", HIDDEN),
    (
        "denied: Permission \"{}\" denied on resource \"{}\" (or it may not exist){}",
        HIDDEN,
    ),
    (
        "unauthorized: access to the requested resource is not authorized",
        HIDDEN,
    ),
    ("denied: denied", HIDDEN),
    ("denied", HIDDEN),
    ("no basic auth credentials", "image-auth"),
    ("authorization failed", "image-auth"),
    ("authentication required", "image-auth"),
    ("unauthorized: {}", "image-auth"),
    ("unauthorized", "image-auth"),
    ("401 Unauthorized", "image-auth"),
    ("403 Forbidden", "image-auth"),
    ("Forbidden", "image-auth"),
    ("denied: {}", "image-auth"),
    (
        "unable to retrieve auth token: invalid username/password: {}",
        "image-auth",
    ),
    // containerd, Docker and containers/image: the platform.
    ("no match for platform in manifest{}", "image-platform"),
    (
        "no matching manifest for {} in the manifest list entries{}",
        "image-platform",
    ),
    (
        "no image found in image index for architecture {}",
        "image-platform",
    ),
    (
        "no image found in manifest list for architecture {}",
        "image-platform",
    ),
    (
        "choosing image instance: no image found in {}",
        "image-platform",
    ),
    (
        "image operating system \"{}\" cannot be used on this platform{}",
        "image-platform",
    ),
    // Registries (OCI distribution specification, error codes), Harbor and ECR.
    ("manifest unknown", "image-missing"),
    ("manifest unknown: {}", "image-missing"),
    ("manifest for {} not found: {}", "image-missing"),
    ("manifest for {} not found", "image-missing"),
    ("name unknown", "image-missing"),
    ("name unknown: {}", "image-missing"),
    ("repository name not known to registry", "image-missing"),
    ("unknown: repository {} not found", "image-missing"),
    ("unknown: artifact {} not found", "image-missing"),
    ("repository {} not found: {}", "image-missing"),
    ("404 Not Found", "image-missing"),
    ("invalid reference format{}", "image-missing"),
    // Limits.
    ("toomanyrequests: {}", "image-rate-limit"),
    ("too many requests{}", "image-rate-limit"),
    (
        "You have reached your pull rate limit{}",
        "image-rate-limit",
    ),
    (
        "You have reached your unauthenticated pull rate limit{}",
        "image-rate-limit",
    ),
    // containerd (pkg/imageverifier) and containers/image (signature policy).
    ("image verifier {} blocked pull of {}", "image-policy"),
    ("image verifier blocked pull of {}", "image-policy"),
    ("Source image rejected: {}", "image-policy"),
    // Disk of the node (errno), which containerd may follow by its error class.
    ("no space left on device{}", "image-disk-full"),
    ("disk quota exceeded{}", "image-disk-full"),
    // Go's net, net/http and crypto/tls.
    ("dial tcp{}", "registry-unreachable"),
    ("proxyconnect tcp: {}", "registry-unreachable"),
    ("lookup {}: no such host", "registry-unreachable"),
    ("connect: connection refused", "registry-unreachable"),
    ("read tcp {}", "registry-unreachable"),
    ("write tcp {}", "registry-unreachable"),
    (
        "http: server gave HTTP response to HTTPS client",
        "registry-unreachable",
    ),
    ("net/http: {}", "registry-unreachable"),
    ("http2: {}", "registry-unreachable"),
    ("tls: {}", "registry-unreachable"),
    ("remote error: tls: {}", "registry-unreachable"),
    ("x509: {}", "registry-unreachable"),
    ("context deadline exceeded{}", "registry-unreachable"),
    ("i/o timeout", "registry-unreachable"),
    ("connection reset by peer", "registry-unreachable"),
    ("EOF", "registry-unreachable"),
    // Docker Engine before 17.04.
    (
        "unable to ping registry endpoint {}",
        "registry-unreachable",
    ),
    ("unexpected EOF", "registry-unreachable"),
    // containerd cancels a pull without progress (image_pull_progress_timeout).
    ("context canceled{}", "image-interrupted"),
    // The error class of containerd, which its code confirms.
    ("not found", "image-missing"),
];

/// Messages of runtimes about the status of a registry's response. The status is the last `{}`.
const STATUS_FORMS: [&str; 7] = [
    "unexpected status from {} request to {}: {}",
    "unexpected status from {} request: {}",
    "unexpected status code {}: {}",
    "unexpected status: {}",
    "pulling from host {} failed with status code {}: {}",
    "received unexpected HTTP status: {}",
    "Received unexpected HTTP status: {}",
];

/// Form of containers/image, where the status is in parentheses.
const STATUS_WITH_NAME: &str = "invalid status code from registry {} ({})";

/// Explains why the image of a container cannot be pulled. The message of a back-off may contain no
/// details, so `tried` is the error of the last attempt's event, if there is one. Returns no causes
/// if neither has details.
pub(super) fn causes(
    facts: &Facts<'_>,
    pod: &Pod,
    (reason, message): (&str, &str),
    tried: Option<(&str, Option<jiff::Timestamp>)>,
) -> Vec<Cause> {
    let is_bare = message.is_empty()
        || captures("Back-off pulling image \"{}\"", message)
            .is_some_and(|texts| !texts[0].contains('"'));
    let known = REASONS.iter().find(|(known, _)| *known == reason);
    let (error, at) = match tried {
        Some((error, at)) if is_bare => (error, at),
        _ if is_bare && known.is_none() => return Vec::new(),
        tried => (message, tried.and_then(|(_, at)| at)),
    };
    let word = known.map_or_else(|| error_word(error), |(_, word)| *word);
    let label = pod_name(pod);
    let cause = |word| {
        Cause::new(
            word,
            format!("{label} cannot pull its image: {error}"),
            "pod",
        )
        .when(at)
    };
    if word != HIDDEN {
        return vec![with_help(facts, cause(word), error)];
    }
    // The evidence prefers neither.
    let both = |word| {
        let cause = cause(word).and(
            "the registry sends the same answer for a missing image and for missing rights",
            "pod",
        );
        Cause {
            weight: 1.0,
            ..with_help(facts, cause, error)
        }
    };
    vec![both("image-auth"), both("image-missing")]
}

/// Returns the name of the cause of a registry's or runtime's error, or `image-other`.
fn error_word(error: &str) -> &'static str {
    let code = error
        .split_once("rpc error: code = ")
        .and_then(|(_, rest)| rest.split(' ').next())
        .unwrap_or_default();
    let starts = error
        .match_indices(": ")
        .map(|(position, _)| position + 2)
        .chain(
            error
                .match_indices(" desc = ")
                .map(|(position, text)| position + text.len()),
        );
    let mut starts: Vec<usize> = std::iter::once(0).chain(starts).collect();
    starts.sort_unstable();
    let inner = starts
        .into_iter()
        .find_map(|start| inner_word(error[start..].trim(), code));
    match inner {
        Some(word) => word,
        None if code == "NotFound" => "image-missing",
        None => "image-other",
    }
}

fn inner_word(error: &str, code: &str) -> Option<&'static str> {
    // An image reference contains no spaces.
    if let Some(reference) = error.strip_suffix(": not found")
        && !reference.is_empty()
        && !reference.contains(char::is_whitespace)
    {
        return Some("image-missing");
    }
    let word = word_of(&ERRORS, error).filter(|_| error != "not found" || code == "NotFound");
    word.or_else(|| status_word(error))
}

/// Returns the name of the cause for the status of a response.
fn status_word(error: &str) -> Option<&'static str> {
    let with_name = captures(STATUS_WITH_NAME, error).map(|texts| texts[0]);
    let plain = STATUS_FORMS
        .iter()
        .find_map(|form| captures(form, error)?.last().copied());
    let status: u16 = with_name.or(plain)?.split(' ').next()?.parse().ok()?;
    Some(match status {
        // NGC answers 402 to accounts without a subscription.
        401..=403 => "image-auth",
        404 => "image-missing",
        429 => "image-rate-limit",
        408 | 500..=599 => "registry-unreachable",
        _ => "image-other",
    })
}

/// Adds what helps, or what to check next.
fn with_help(facts: &Facts<'_>, cause: Cause, error: &str) -> Cause {
    let secret = || Some("gpuctl explain environment.image_pull_secret".to_owned());
    match cause.word {
        "image-auth" if error.ends_with("402 Payment Required") => cause.helps(
            "the account of its credentials needs a subscription for this image",
            secret(),
        ),
        "image-auth" => cause.helps("set a Secret with credentials for the registry", secret()),
        "registry-unreachable" => cause.helps(
            "make sure that the nodes can reach the registry, or already have the image",
            None,
        ),
        "image-rate-limit" => cause.helps(
            "wait, pull with an account, or use a mirror of the image",
            secret(),
        ),
        "image-platform" => cause.helps(
            "use an image that is built for the architecture of the node",
            Some(super::refused::set(facts, "environment.image=IMAGE")),
        ),
        "image-policy" => cause.helps(
            "use a signed image from a registry that the nodes trust, or ask their administrator",
            None,
        ),
        "image-disk-full" => cause.helps(
            "an administrator must free space on the disk of the node, or use another node",
            None,
        ),
        "image-interrupted" => cause.helps(
            "wait for the next attempt; containerd also ends a pull without progress",
            None,
        ),
        "image-other" => cause.helps("see the events of the pod and the log of its node", None),
        _ => cause.helps(
            "correct the image",
            Some(super::refused::set(facts, "environment.image=IMAGE")),
        ),
    }
}

#[cfg(test)]
mod tests;
