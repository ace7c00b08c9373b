//! Tests how the config file is read.

use super::*;

#[test]
fn unknown_keys_have_suggestions() {
    let file = |text: &str| ConfigFile {
        content: parsed(text, Path::new("c")).unwrap(),
        path: Some("c".into()),
        exposure: None,
        ..ConfigFile::default()
    };
    assert_eq!(
        file("promethues: {url: x}").unknown(),
        ["c: unknown key `promethues`; did you mean `prometheus`?"]
    );
    assert_eq!(
        file("scoring: {gpu_weight: 1}").unknown(),
        ["c: unknown key `scoring.gpu_weight`; did you mean `scoring.gpu_util_weight`?"]
    );
    assert_eq!(
        file("ai: {modl: x}").unknown(),
        ["c: unknown key `ai.modl`; did you mean `ai.model`?"]
    );
    assert_eq!(
        file("ai: {interval: 3}").unknown(),
        ["c: unknown key `ai.interval`; did you mean `scheduler.interval`?"]
    );
    assert_eq!(
        file("ai: 3").unknown(),
        ["c: `ai` has no keys and is ignored"]
    );
    assert_eq!(file("- 3").unknown(), ["c has no keys and is ignored"]);
    assert!(file("prometheus: http://a\nai:\n").unknown().is_empty());
}
