//! Builds the text that redraws a watched table within a number of rows.

/// Builds a frame that overwrites the previous one, so that the table neither scrolls nor flickers.
/// If some lines do not fit, states their number.
pub(super) fn frame(text: &str, rows: usize, first: bool) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let is_complete = lines.len() < rows;
    let shown_lines = if is_complete {
        lines.len()
    } else {
        rows.saturating_sub(2)
    };
    // `[2J` clears the screen, `[H` moves the cursor to its top left, `[K` clears the rest of a
    // line, and `[J` clears the rest of the screen.
    let mut result = String::from(if first {
        "\u{1b}[2J\u{1b}[H"
    } else {
        "\u{1b}[H"
    });
    for line in &lines[..shown_lines] {
        result.push_str(&format!("{line}\u{1b}[K\n"));
    }
    if !is_complete {
        result.push_str(&format!(
            "… {} more lines\u{1b}[K\n",
            lines.len() - shown_lines
        ));
    }
    result.push_str("\u{1b}[J");
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_drawn_in_place_and_fit_the_window() {
        assert_eq!(
            frame("a\nb\n", 10, false),
            "\u{1b}[Ha\u{1b}[K\nb\u{1b}[K\n\u{1b}[J"
        );
        assert!(frame("a\n", 10, true).starts_with("\u{1b}[2J"));
        let truncated = frame("1\n2\n3\n4\n5\n", 4, false);
        assert!(
            truncated.contains("2\u{1b}[K\n… 3 more lines") && truncated.matches('\n').count() == 3,
            "{truncated:?}"
        );
    }
}
