//! Tests the widths of tables, and the differences between tables and CSV.

use super::*;

const LOOK: TextStyle = TextStyle {
    width: None,
    color: false,
    plain: false,
};

fn table() -> Table {
    let mut table = Table::new([left("NAME"), right("GPU")]);
    table.row(vec!["qwen2".into(), "16".into()]);
    table.row(vec!["模型,a\u{1b}".into(), "-".into()]);
    table
}

#[test]
fn columns_align_by_what_a_terminal_shows() {
    assert_eq!(
        table().show(Format::Table, true, LOOK),
        "NAME         GPU\nqwen2         16\n模型,a\\u{1b}   -\n"
    );
    assert_eq!(table().show(Format::Table, false, LOOK).lines().count(), 2);
}

#[test]
fn contexts_are_the_first_column() {
    let contexts = RowContexts::new(&["prod"]);
    let with_contexts = table().with_contexts(contexts);
    assert_eq!(
        with_contexts.show(Format::Table, true, LOOK),
        "CONTEXT NAME         GPU\nprod    qwen2         16\ntotal   模型,a\\u{1b}   -\n"
    );
    assert_eq!(
        with_contexts.show(Format::Csv, true, LOOK).lines().next(),
        Some("context,name,gpu")
    );
    assert_eq!(
        table()
            .with_contexts(RowContexts::NONE)
            .show(Format::Table, true, LOOK),
        table().show(Format::Table, true, LOOK)
    );
}

#[test]
fn optional_columns_disappear_on_narrow_terminals() {
    let mut table = Table::new([
        left("NAME"),
        right("CPU").yielding(),
        right("GPU"),
        left("ABOUT").yielding(),
    ]);
    table.row(vec!["模型".into(), "12%".into(), "8".into(), "text".into()]);
    let first = |width| {
        let text = table.show(
            Format::Table,
            true,
            TextStyle {
                width: Some(width),
                ..LOOK
            },
        );
        text.lines()
            .next()
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    // Columns of 4 + 3 + 3 + 5 characters, separated by a space.
    assert_eq!(
        (first(18), first(17)),
        ("NAME CPU GPU ABOUT".to_owned(), "NAME CPU GPU".to_owned())
    );
    assert_eq!(
        (first(11), first(5)),
        ("NAME GPU".to_owned(), "NAME GPU".to_owned())
    );
    let jobs = Table {
        all_columns_in: Some("wide"),
        ..table
    };
    let text = jobs.show(
        Format::Table,
        true,
        TextStyle {
            width: Some(17),
            ..LOOK
        },
    );
    assert!(text.ends_with("\nnot shown: ABOUT (-o wide)\n"), "{text}");
    let table = jobs;
    assert!(
        table
            .show(
                Format::Wide,
                true,
                TextStyle {
                    width: Some(5),
                    ..LOOK
                }
            )
            .contains("ABOUT")
    );
}

#[test]
fn long_names_are_cut_in_the_middle_before_columns_go() {
    let mut table = Table::new([left("NAME"), right("GPU"), right("AGE")]);
    table.row(vec![
        "default/llama3-70b-pretrain-0-gs2hw".into(),
        "8".into(),
        "59m".into(),
    ]);
    let text = |width| {
        table.show(
            Format::Table,
            true,
            TextStyle {
                width: Some(width),
                ..LOOK
            },
        )
    };
    // A name of 20 characters, and two columns of three characters.
    assert_eq!(
        text(28).lines().nth(1),
        Some("default/ll…n-0-gs2hw   8 59m")
    );
    for width in [20, 28, 30, 43] {
        assert!(
            text(width).lines().all(|line| line.width() <= width),
            "{}",
            text(width)
        );
        assert!(text(width).contains("59m"), "{}", text(width));
    }
    assert!(text(30).contains("…") && !text(60).contains("…"));
    assert!(
        text(14).lines().all(|line| line.width() <= 16),
        "{}",
        text(14)
    );
}

#[test]
fn csv_moves_percent_signs_to_the_header() {
    let mut table = Table::new([left("MESSAGE"), percentages("UTIL")]);
    table.row(vec!["disk is at 100%".into(), "12%".into()]);
    assert_eq!(
        table.show(Format::Csv, true, LOOK),
        "message,util_percent\ndisk is at 100%,12\n"
    );
}

#[test]
fn csv_quotes_and_leaves_unknown_empty() {
    assert_eq!(
        table().show(Format::Csv, true, LOOK),
        "name,gpu\nqwen2,16\n\"模型,a\\u{1b}\",\n"
    );
}
