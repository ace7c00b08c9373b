//! Finds tabs in the indentation of YAML, which allows only spaces there.

/// Finds lines with a tab in their indentation, as (line, column).
pub(super) fn indenting_tabs(text: &str) -> Vec<(usize, usize)> {
    let leading = |line: &str| {
        line.chars()
            .take_while(|c| c.is_whitespace())
            .position(|c| c == '\t')
    };
    text.lines()
        .enumerate()
        .filter_map(|(index, line)| Some((index + 1, leading(line)? + 1)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tabs_before_the_text_of_a_line_count() {
        assert_eq!(indenting_tabs("a: 1\n \tb: 2\nc:\t3\n"), [(2, 2)]);
    }
}
