//! Tests escaping for terminals, Markdown and chats.

use crate::format::text::*;

const LOOK: TextStyle = TextStyle {
    width: None,
    color: false,
    plain: false,
};

#[test]
fn control_sequences_are_removed() {
    assert_eq!(clean("train\u{1b}[31m"), "train\\u{1b}[31m");
    assert_eq!(clean("a\u{202e}b\u{9b}c\nd"), "a\\u{202e}b\\u{9b}c d");
    assert!(matches!(clean("模型 qwen2"), Cow::Borrowed(_)));
}

#[test]
fn a_shown_name_can_be_pasted_into_a_shell() {
    assert_eq!(plain_name("$(touch${IFS}x)"), "__touch__IFS_x_");
    assert_eq!(plain_name("--all;rm -rf ~"), "_-all_rm_-rf__");
    for name in [
        "bert-large",
        "system:node-reader",
        "a.b_c",
        "set/x",
        "user@site",
    ] {
        assert!(matches!(plain_name(name), Cow::Borrowed(_)), "{name}");
    }
}

#[test]
fn invisible_characters_are_shown_and_joiners_of_scripts_stay() {
    let invisible = "\u{200b}\u{2060}\u{2064}\u{ad}\u{fff9}\u{feff}\u{180e}\u{34f}\u{115f}\u{1160}\u{17b4}\u{3164}\u{ffa0}\u{e0041}\u{e0101}";
    for c in invisible.chars().chain("\u{200c}\u{200d}\u{fe0f}".chars()) {
        let text = format!("a{c}b");
        assert_eq!(clean(&text), format!("a{}b", c.escape_unicode()));
        assert_eq!(sanitized(&text, true), clean(&text));
        assert!(!escaped(format!("\"{text}\"")).contains(c), "{c:?}");
    }
    for text in [
        "👩\u{200d}🔬",
        "❤\u{fe0f}",
        "🏳\u{fe0f}\u{200d}🌈",
        "می\u{200c}خواهم",
        "क्\u{200d}ष",
        "1\u{fe0f}\u{20e3}",
    ] {
        assert_eq!(
            (clean(text), sanitized(text, false)),
            (text.into(), text.into())
        );
    }
    assert!(
        !clean("模\u{200d}\u{200d}\u{200d}型").contains('\u{200d}'),
        "more than one hides something"
    );
}

#[test]
fn markdown_contains_no_foreign_markup() {
    assert_eq!(
        in_markdown("<img onerror=x> & [a](javascript:x)"),
        "&#60;img onerror=x&#62; &#38; \\[a\\](javascript:x)"
    );
    assert_eq!(
        in_markdown("`a` **b** _c_ # |\n@all \\"),
        "\\`a\\` \\*\\*b\\*\\* \\_c\\_ \\# \\| &#64;all \\\\"
    );
    assert_eq!(in_markdown("https://x www.x"), "https&#58;//x www&#46;x");
    assert_eq!(in_markdown("team-a.b"), "team-a.b");
}

#[test]
fn chats_get_one_line_without_mentions() {
    let text = in_chat(
        "GPU-1\n- a/b: \u{1b}[31m <at user_id=\"all\"> <!channel> @here [x](http://y)\u{202e}",
    );
    let parts = ["\n", "\u{1b}", "<", ">", "@", "[", "://", "\u{202e}"];
    assert!(parts.iter().all(|part| !text.contains(part)), "{text}");
    assert_eq!(in_chat("GPU-8f2a 模型_1.x"), "GPU-8f2a 模型_1.x");
}

#[test]
fn lines_and_colors_of_an_output_stay() {
    let output =
        "a\tb\n\u{1b}[31mred\u{1b}[0m\u{1b}[38:5:1m \u{1b}[2J\u{1b}]0;x\u{7}\u{202e}\r模\u{1b}";
    let escaped_text = "\\u{1b}[2J\\u{1b}]0;x\\u{7}\\u{202e}\\u{d}模\\u{1b}";
    assert_eq!(
        sanitized(output, true),
        format!("a\tb\n\u{1b}[31mred\u{1b}[0m\u{1b}[38:5:1m {escaped_text}")
    );
    assert_eq!(
        sanitized(output, false),
        format!("a\tb\n\\u{{1b}}[31mred\\u{{1b}}[0m\\u{{1b}}[38:5:1m {escaped_text}")
    );
    assert!(matches!(sanitized("a\n模型\t", false), Cow::Borrowed(_)));
}

#[test]
fn json_is_the_same_value_without_what_steers() {
    let value =
        serde_json::json!({"a\u{9b}": "b\u{202e}\u{7f}\u{e0041}模型\u{1b}", "n": [1.5, null]});
    let text = escaped(serde_json::to_string_pretty(&value).unwrap());
    assert!(
        text.contains("a\\u009b") && text.contains("\\u202e\\u007f\\udb40\\udc41模型\\u001b"),
        "{text}"
    );
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&text).unwrap(),
        value
    );
    let yaml = crate::yaml(&value);
    assert!(
        !yaml.contains(['\u{9b}', '\u{202e}', '\u{7f}', '\u{e0041}']),
        "{yaml}"
    );
    assert_eq!(
        serde_saphyr::from_str::<serde_json::Value>(&yaml).unwrap(),
        value
    );
}

#[test]
fn ages() {
    let time = |seconds| Some(Timestamp::from_second(seconds).unwrap());
    let now = time(1_000_000).unwrap();
    for (seconds, text) in [
        (45, "45s"),
        (720, "12m"),
        (10_800, "3h"),
        (172_800, "2d"),
        (-5, "0s"),
        (7199, "119m"),
    ] {
        assert_eq!(age(time(1_000_000 - seconds), now), text);
    }
    assert_eq!(age(None, now), "-");
}

#[test]
fn bars_always_have_their_number() {
    assert_eq!(bar(Percent(65.0), 5, LOOK), "███▎  65%");
    assert_eq!(bar(Percent(0.0), 3, LOOK), "    0%");
    assert_eq!(bar(Percent(100.0), 3, LOOK), "███ 100%");
    assert_eq!(
        bar(
            Percent(50.0),
            4,
            TextStyle {
                plain: true,
                ..LOOK
            }
        ),
        "##.. 50%"
    );
}

#[test]
fn long_texts_wrap_next_to_their_title() {
    let style = |width| TextStyle {
        width,
        color: false,
        plain: false,
    };
    let text = "0/12 nodes are available: 2 Insufficient nvidia.com/gpu";
    assert_eq!(wrapped(text, 4, style(None)), text);
    assert_eq!(
        wrapped(text, 4, style(Some(40))),
        "0/12 nodes are available: 2\n    Insufficient nvidia.com/gpu"
    );
    assert_eq!(
        wrapped("模型".repeat(8).as_str(), 4, style(Some(30))),
        "模型".repeat(8),
        "a name is not cut"
    );
    assert_eq!(
        wrapped("模型模型 模型模型 模型模型 模型", 4, style(Some(29))),
        "模型模型 模型模型\n    模型模型 模型",
        "two columns each"
    );
}
