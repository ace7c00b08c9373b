//! Checks for tests and fuzzers that hostile text is escaped.

use super::{csv, text};

/// Renders text for a terminal and a spreadsheet, and panics if the result is unsafe.
pub fn shown(bytes: &[u8]) {
    let input = String::from_utf8_lossy(bytes);
    let output = text::clean(&input);
    assert!(
        !output
            .chars()
            .any(|c| c < ' ' || ('\u{7f}'..='\u{9f}').contains(&c)),
        "a control character"
    );
    assert!(
        !output.contains([
            '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}', '\u{200e}', '\u{2028}'
        ]),
        "a direction mark"
    );
    let file = csv::records([vec![input.clone().into_owned(), "1".to_owned()]]);
    let mut reader = ::csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(file.as_bytes());
    let records: Vec<_> = reader
        .records()
        .map(|record| record.expect("it is CSV"))
        .collect();
    assert!(
        matches!(records.as_slice(), [one] if one.len() == 2),
        "one record of two cells"
    );
    assert!(
        !records[0][0].starts_with(['=', '@', '\t', '\r']),
        "a formula"
    );
}
