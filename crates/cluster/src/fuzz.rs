//! What a fuzzer feeds with answers of an API server: pages in both encodings, watches, logs. It
//! knows no expected values, only what holds for all bytes. Built for fuzzers and for tests.

use jiff::Timestamp;
use serde_json::Value;

use crate::inventory::held_pod::{ConsumerReader, HeldPod};
use crate::streams::follower::Follower;
use crate::streams::log_lines::{LineSplitter, line};
use crate::transport::decode::{ListPage, WirePod};
use crate::transport::notify::HeardChanges;
use crate::transport::protobuf;
use crate::transport::protobuf::{Message, list_of};
use gpuctl_core::model::{Consumers, Pod};

const PODS: &str = "/api/v1/pods";

fn message(path: &str) -> &'static Message {
    list_of(path).expect("pods and nodes are read in protobuf")
}

/// Reads a list in protobuf, in every struct that it is read into.
pub fn protobuf_page(bytes: &[u8]) {
    let pods = message(PODS);
    let whole = protobuf::decode::<ListPage<WirePod<'_>>>(bytes, pods);
    let known: Vec<Pod> = whole
        .iter()
        .flat_map(|page| page.items.iter().map(WirePod::pod))
        .collect();
    let held = protobuf::decode::<ListPage<HeldPod<'_>>>(bytes, pods);
    if let Ok(held) = held {
        let consumers = ConsumerReader::default().living(&held.items);
        let living = known.iter().filter(|pod| !pod.ended()).count();
        assert!(
            whole.is_err() || living == consumers.len(),
            "two structs read another number of pods"
        );
        let (number, sums) = (consumers.len(), Consumers::from_iter(consumers));
        assert!(sums.with_devices.len() <= number, "pods were made up");
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

/// Reads a list in JSON, in every struct that it is read into.
pub fn json_page(bytes: &[u8]) {
    let whole = serde_json::from_slice::<ListPage<WirePod<'_>>>(bytes);
    let known: Vec<Pod> = whole
        .iter()
        .flat_map(|page| page.items.iter().map(WirePod::pod))
        .collect();
    if let Ok(held) = serde_json::from_slice::<ListPage<HeldPod<'_>>>(bytes) {
        let consumers = ConsumerReader::default().living(&held.items);
        let living = known.iter().filter(|pod| !pod.ended()).count();
        assert!(
            whole.is_err() || living == consumers.len(),
            "two structs read another number of pods"
        );
        let (number, sums) = (consumers.len(), Consumers::from_iter(consumers));
        assert!(sums.with_devices.len() <= number, "pods were made up");
    }
}

/// Hears a watch that arrives in pieces: an event that is told twice is news once.
pub fn watch(bytes: &[u8]) {
    let mut heard = HeardChanges::default();
    for line in in_pieces(bytes) {
        heard.is_news(&line);
        let event = serde_json::from_slice::<Value>(&line);
        let is_kept = event.is_ok_and(|event| {
            !["DELETED", "ERROR"]
                .iter()
                .any(|kind| event["type"] == *kind)
        });
        assert!(
            !(heard.is_news(&line) && is_kept),
            "the same event is news twice"
        );
    }
}

/// Reads a kubeconfig as the library does that gpuctl uses.
pub fn kubeconfig(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = kube::config::Kubeconfig::from_yaml(text);
}

/// Cuts bytes at distances that their own beginning tells, and puts the lines together again.
fn in_pieces(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (distances, text) = bytes.split_at(bytes.len().min(4));
    let mut splitter = LineSplitter::default();
    let (mut lines, mut rest, mut turn) = (Vec::new(), text, 0);
    while !rest.is_empty() {
        let length = usize::from(distances[turn % distances.len()]).clamp(1, rest.len());
        splitter.take(&rest[..length], |line| lines.push(line.to_vec()));
        (rest, turn) = (&rest[length..], turn + 1);
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

/// Resumes a log wherever it breaks: each line comes once, in its order.
pub fn log(bytes: &[u8]) {
    let _: Vec<_> = in_pieces(bytes).iter().map(|bytes| line(bytes)).collect();
    let (breaks, steps) = bytes.split_at(bytes.len().min(6));
    let mut second = 1_000_000;
    let lines: Vec<_> = steps
        .iter()
        .enumerate()
        .map(|(index, step)| {
            // Many lines of one moment, some of one second, some later.
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
    let (mut follower, mut taken) = (Follower::default(), Vec::new());
    for end in ends {
        follower.resume();
        let from: Option<Timestamp> = follower
            .since()
            .map(|since| since.parse().expect("a time that is sent is a time"));
        let sent = lines[..end]
            .iter()
            .filter(|line| from.is_none_or(|from| line.at.is_some_and(|at| at >= from)));
        taken.extend(sent.filter(|line| follower.take(line)).cloned());
    }
    assert_eq!(taken, lines, "a line was lost or came twice");
}

/// Encodes a list of pods in JSON as protobuf.
pub fn protobuf_seed(list: &str) -> Vec<u8> {
    let mut list: Value = serde_json::from_str(list).expect("a seed is JSON");
    // Protobuf knows no null, and amounts are texts there.
    list["items"]
        .as_array_mut()
        .expect("a list")
        .retain(|item| !item["metadata"].is_null());
    list["items"][0]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "8".into();
    protobuf::encode::encoded_list(PODS, &list).1
}

/// Returns how many pods a page has, read as inventories do.
pub fn consumers_in(page: &[u8], is_protobuf: bool) -> usize {
    let read = match is_protobuf {
        true => protobuf::decode::<ListPage<HeldPod<'_>>>(page, message(PODS)),
        false => serde_json::from_slice(page),
    };
    ConsumerReader::default()
        .living(&read.expect("a page of pods").items)
        .len()
}
