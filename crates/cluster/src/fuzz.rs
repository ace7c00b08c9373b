//! Entry points for fuzzers and tests, which feed arbitrary bytes to the code that reads API server
//! responses: pages in both encodings, watches and logs. They assert properties that hold for all
//! inputs, not expected values.

use jiff::Timestamp;
use serde_json::Value;

use crate::inventory::held_pod::{ConsumerReader, HeldPod};
use crate::streams::follower::Follower;
use crate::streams::log_lines::{LineSplitter, line};
use crate::transport::decode::{ListPage, WirePod};
use crate::transport::notify::WatchedCollection;
use crate::transport::protobuf;
use crate::transport::protobuf::{Message, list_of};
use gpuctl_core::model::{Consumers, Pod};

const PODS: &str = "/api/v1/pods";

fn message(path: &str) -> &'static Message {
    list_of(path).expect("pods and nodes are read in protobuf")
}

/// Decodes a protobuf list as each of the structs that lists are decoded to.
pub fn protobuf_page(bytes: &[u8]) {
    let pods = message(PODS);
    let decoded = protobuf::decode::<ListPage<WirePod<'_>>>(bytes, pods);
    let parsed: Vec<Pod> = decoded
        .iter()
        .flat_map(|page| page.items.iter().map(WirePod::pod))
        .collect();
    let held = protobuf::decode::<ListPage<HeldPod<'_>>>(bytes, pods);
    if let Ok(held) = held {
        let consumers = ConsumerReader::default().living(&held.items);
        let running = parsed.iter().filter(|pod| !pod.ended()).count();
        assert!(
            decoded.is_err() || running == consumers.len(),
            "two structs decode different numbers of pods"
        );
        let (number, totals) = (consumers.len(), Consumers::from_iter(consumers));
        assert!(
            totals.with_devices.len() <= number,
            "more pods have devices than were read"
        );
    }
    for path in [
        PODS,
        "/api/v1/nodes",
        "/apis/batch/v1/jobs",
        "/apis/apps/v1/statefulsets",
    ] {
        let _ = protobuf::decode::<Value>(bytes, message(path));
    }
}

/// Decodes a JSON list as each of the structs that lists are decoded to.
pub fn json_page(bytes: &[u8]) {
    let decoded = serde_json::from_slice::<ListPage<WirePod<'_>>>(bytes);
    let parsed: Vec<Pod> = decoded
        .iter()
        .flat_map(|page| page.items.iter().map(WirePod::pod))
        .collect();
    if let Ok(held) = serde_json::from_slice::<ListPage<HeldPod<'_>>>(bytes) {
        let consumers = ConsumerReader::default().living(&held.items);
        let running = parsed.iter().filter(|pod| !pod.ended()).count();
        assert!(
            decoded.is_err() || running == consumers.len(),
            "two structs decode different numbers of pods"
        );
        let (number, totals) = (consumers.len(), Consumers::from_iter(consumers));
        assert!(
            totals.with_devices.len() <= number,
            "more pods have devices than were read"
        );
    }
}

/// Reads a watch that arrives in pieces. An event that is sent twice must count as one change.
pub fn watch(bytes: &[u8]) {
    let mut changes = WatchedCollection::default();
    for line in in_pieces(bytes) {
        changes.is_change(&line);
        let event = serde_json::from_slice::<Value>(&line);
        let is_unchanged = event.is_ok_and(|event| {
            !["DELETED", "ERROR"]
                .iter()
                .any(|kind| event["type"] == *kind)
        });
        assert!(
            !(changes.is_change(&line) && is_unchanged),
            "the same event signals two changes"
        );
    }
}

/// Parses a kubeconfig with the library that gpuctl uses.
pub fn kubeconfig(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = kube::config::Kubeconfig::from_yaml(text);
}

/// Cuts the bytes into pieces, passes them to a `LineSplitter` and returns its lines. The first
/// bytes set the lengths of the pieces.
fn in_pieces(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (distances, text) = bytes.split_at(bytes.len().min(4));
    let mut splitter = LineSplitter::default();
    let (mut lines, mut rest, mut step) = (Vec::new(), text, 0);
    while !rest.is_empty() {
        let length = usize::from(distances[step % distances.len()]).clamp(1, rest.len());
        splitter.take(&rest[..length], |line| lines.push(line.to_vec()));
        (rest, step) = (&rest[length..], step + 1);
    }
    let mut expected: Vec<Vec<u8>> = text
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    assert_eq!(
        Some(splitter.pending),
        expected.pop(),
        "the line that has not ended"
    );
    assert_eq!(lines, expected, "lines do not depend on how they arrive");
    lines
}

/// Resumes a log after each break and checks that every line arrives once and in order.
pub fn log(bytes: &[u8]) {
    let _: Vec<_> = in_pieces(bytes).iter().map(|bytes| line(bytes)).collect();
    let (breaks, steps) = bytes.split_at(bytes.len().min(6));
    let mut second = 1_000_000;
    let lines: Vec<_> = steps
        .iter()
        .enumerate()
        .map(|(index, step)| {
            // Many lines have the same timestamp. Of the others, some are within the same second
            // and some are later.
            second += i64::from(*step) / 64 * 400;
            let at = Timestamp::from_millisecond(second).expect("minutes after 1970");
            line(format!("{at} {index}").as_bytes())
        })
        .collect();
    let mut ends: Vec<usize> = breaks
        .iter()
        .map(|end| usize::from(*end) % (lines.len() + 1))
        .chain([lines.len()])
        .collect();
    ends.sort_unstable();
    let (mut follower, mut accepted) = (Follower::default(), Vec::new());
    for end in ends {
        follower.resume();
        let from: Option<Timestamp> = follower
            .since()
            .map(|since| since.parse().expect("a time that is sent is a time"));
        let sent = lines[..end]
            .iter()
            .filter(|line| from.is_none_or(|from| line.at.is_some_and(|at| at >= from)));
        accepted.extend(sent.filter(|line| follower.take(line)).cloned());
    }
    assert_eq!(accepted, lines, "a line was lost or came twice");
}

/// Encodes a JSON list of pods as protobuf.
pub fn protobuf_seed(list: &str) -> Vec<u8> {
    let mut list: Value = serde_json::from_str(list).expect("a seed is JSON");
    // Protobuf has no null, and it stores quantities as strings.
    list["items"]
        .as_array_mut()
        .expect("a list")
        .retain(|item| !item["metadata"].is_null());
    list["items"][0]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "8".into();
    protobuf::encode::encoded_list(PODS, &list).1
}

/// Decodes a page of pods as inventories do, and counts its consumers.
pub fn consumers_in(page: &[u8], is_protobuf: bool) -> usize {
    let page = match is_protobuf {
        true => protobuf::decode::<ListPage<HeldPod<'_>>>(page, message(PODS)),
        false => serde_json::from_slice(page),
    };
    ConsumerReader::default()
        .living(&page.expect("a page of pods").items)
        .len()
}
