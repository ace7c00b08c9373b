use super::*;

/// containerd's message for an error of the registry.
fn pull(code: &str, image: &str, error: &str) -> String {
    format!(
        "rpc error: code = {code} desc = failed to pull and unpack image \"{image}\": failed to \
         resolve reference \"{image}\": {error}"
    )
}

#[test]
fn digits_and_fragments_are_not_evidence() {
    let image = "registry.example.com/team/401k-model:v1";
    let missing = pull("NotFound", image, &format!("{image}: not found"));
    assert_eq!(error_word(&missing), "image-missing");
    let digest = "registry.example.com/x@sha256:4010c403bd429e500aa404";
    let refused = "dial tcp 10.0.0.1:443: connect: connection refused";
    assert_eq!(
        error_word(&pull("Unknown", digest, refused)),
        "registry-unreachable"
    );
    let named = "registry.example.com/denied/toomanyrequests/unauthorized:eof";
    assert_eq!(
        error_word(&pull("Unknown", named, "words of a new version")),
        "image-other"
    );
    assert_eq!(
        error_word("the key \"not found\" is not found in the cache"),
        "image-other"
    );
}

#[test]
fn errors_of_registries_have_causes() {
    let image = "registry.example.com/team/train:v7";
    let url = "https://registry.example.com/v2/team/train/manifests/v7";
    let status = |status: &str| format!("unexpected status from HEAD request to {url}: {status}");
    let request = |error: &str| format!("failed to do request: Head \"{url}\": {error}");
    let cases = [
        ("manifest unknown: manifest unknown".to_owned(), "image-missing"),
        (status("404 Not Found"), "image-missing"),
        (status("401 Unauthorized"), "image-auth"),
        (status("402 Payment Required"), "image-auth"),
        (status("403 Forbidden"), "image-auth"),
        (status("429 Too Many Requests"), "image-rate-limit"),
        (status("503 Service Unavailable"), "registry-unreachable"),
        (status("418 I'm a teapot"), "image-other"),
        ("failed to authorize: 401 Unauthorized".to_owned(), "image-auth"),
        (
            "failed to copy: httpReadSeeker: failed open: unexpected status code \
             https://registry-1.docker.io/v2/x/manifests/sha256:401: 429 Too Many Requests - Server \
             message: toomanyrequests: You have reached your unauthenticated pull rate limit."
                .to_owned(),
            "image-rate-limit",
        ),
        (
            "pull access denied, repository does not exist or may require authorization: server \
             message: insufficient_scope: authorization failed"
                .to_owned(),
            HIDDEN,
        ),
        (
            "failed to authorize: failed to fetch anonymous token: unexpected status from GET \
             request to https://ghcr.io/token?scope=a%3Apull: 403 Forbidden"
                .to_owned(),
            HIDDEN,
        ),
        (
            "failed to authorize: failed to fetch anonymous token: Get \"https://ghcr.io/token\": \
             dial tcp: lookup ghcr.io on 10.0.0.10:53: server misbehaving"
                .to_owned(),
            "registry-unreachable",
        ),
        ("no match for platform in manifest: not found".to_owned(), "image-platform"),
        (request("http: server gave HTTP response to HTTPS client"), "registry-unreachable"),
        (
            request("tls: failed to verify certificate: x509: certificate signed by unknown authority"),
            "registry-unreachable",
        ),
        (
            request("dial tcp: lookup registry.example.com on 10.0.0.10:53: no such host"),
            "registry-unreachable",
        ),
        (
            request("net/http: TLS handshake timeout"),
            "registry-unreachable",
        ),
        (request("EOF"), "registry-unreachable"),
        (request("context canceled"), "image-interrupted"),
        (
            "failed to extract layer sha256:4a: mount callback failed on /tmp/m: write \
             /var/lib/a.so: no space left on device: unknown"
                .to_owned(),
            "image-disk-full",
        ),
        (
            "Source image rejected: A signature was required, but no signature exists".to_owned(),
            "image-policy",
        ),
    ];
    for (error, word) in cases {
        assert_eq!(error_word(&pull("Unknown", image, &error)), word, "{error}");
    }
}

/// CRI-O and Docker wrap the errors of registries differently.
#[test]
fn errors_of_other_runtimes_have_causes() {
    let cases = [
        (
            "rpc error: code = Unknown desc = reading manifest v7 in registry.example.com/x: manifest \
             unknown",
            "image-missing",
        ),
        (
            "initializing source docker://registry.example.com/x:v7: Requesting bearer token: \
             invalid status code from registry 403 (Forbidden)",
            "image-auth",
        ),
        (
            "Error response from daemon: pull access denied for x, repository does not exist or may \
             require 'docker login': denied: requested access to the resource is denied",
            HIDDEN,
        ),
        (
            "Error response from daemon: no matching manifest for linux/arm64/v8 in the manifest \
             list entries",
            "image-platform",
        ),
        (
            "choosing image instance: no image found in image index for architecture \"arm64\", \
             variant \"v8\", OS \"linux\"",
            "image-platform",
        ),
        (
            "Back-off pulling image \"x\": SignatureValidationFailed: image pull failed for x because \
             the signature validation failed",
            "image-policy",
        ),
    ];
    for (error, word) in cases {
        assert_eq!(error_word(error), word, "{error}");
    }
}
