//! Splits an answer into pages for an agent's context window. Each page repeats the table header.

use std::fmt;

/// Maximum size of a page in bytes, without the fence and the page number.
const PAGE: usize = 1700;

/// One page of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AnswerPage {
    pub text: String,
    /// Line with the page number, or `None` for a single page.
    pub trailer: Option<String>,
    /// Number of pages.
    pub count: usize,
}

/// The requested page does not exist.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageOutOfRange {
    number: usize,
    /// Number of the last page.
    last: usize,
}

impl fmt::Display for PageOutOfRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, last } = self;
        match last {
            1 => write!(
                formatter,
                "`page` is {number}, but the answer has only one page\n\
                 hint: call the tool again without `page`"
            ),
            last => write!(
                formatter,
                "`page` is {number}, but the answer has pages 1 to {last}\n\
                 hint: call the tool again with `page` from 1 to {last}"
            ),
        }
    }
}

impl std::error::Error for PageOutOfRange {}

/// Returns page `number`, counted from 1.
///
/// # Errors
///
/// Fails if the page is out of range.
pub(super) fn page(text: &str, number: usize) -> Result<AnswerPage, PageOutOfRange> {
    let text = text.trim_end();
    let text = if text.is_empty() { "(nothing)" } else { text };
    let pages = if text.len() <= PAGE {
        vec![text.to_owned()]
    } else {
        cut(text)
    };
    let Some(content) = number.checked_sub(1).and_then(|index| pages.get(index)) else {
        return Err(PageOutOfRange {
            number,
            last: pages.len(),
        });
    };
    let next_hint = match number < pages.len() {
        true => format!("; `page: {}` continues", number + 1),
        false => String::new(),
    };
    let trailer =
        (pages.len() > 1).then(|| format!("[page {number} of {}{next_hint}]", pages.len()));
    Ok(AnswerPage {
        text: content.clone(),
        trailer,
        count: pages.len(),
    })
}

fn cut(text: &str) -> Vec<String> {
    let header = text
        .lines()
        .next()
        .filter(|line| is_header(line))
        .map(|line| format!("{line}\n"))
        .unwrap_or_default();
    let mut pages = vec![String::new()];
    let body = text.strip_prefix(header.as_str()).unwrap_or(text);
    for line in body.split_inclusive('\n') {
        let mut unplaced = line;
        while !unplaced.is_empty() {
            let page = pages.last_mut().expect("there is a page");
            let free = PAGE.saturating_sub(header.len() + page.len());
            if unplaced.len() <= free {
                page.push_str(unplaced);
                break;
            }
            // Split a line that exceeds a page. Move any other line to the next page.
            if page.is_empty() {
                let end = (0..=free.max(4))
                    .rev()
                    .find(|end| unplaced.is_char_boundary(*end))
                    .unwrap_or(unplaced.len());
                let (part, remainder) = unplaced.split_at(end);
                page.push_str(part);
                unplaced = remainder;
            }
            if !unplaced.is_empty() {
                pages.push(String::new());
            }
        }
    }
    pages
        .iter()
        .map(|page| format!("{header}{}", page.trim_end_matches('\n')))
        .collect()
}

/// Returns true if a line is a table header: short, and in capitals.
fn is_header(line: &str) -> bool {
    let letters = || line.chars().filter(|c| c.is_alphabetic());
    line.len() < PAGE / 4 && letters().count() > 3 && letters().all(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_table_has_its_header_on_every_page() {
        let rows: String = (0..200)
            .map(|row| format!("job-{row:<20} training running\n"))
            .collect();
        let text = format!("NAME KIND STATUS\n{rows}");
        let first = page(&text, 1).unwrap();
        assert!(
            first.text.len() <= PAGE && first.text.starts_with("NAME KIND STATUS\njob-0 "),
            "{first:?}"
        );
        assert!(first.trailer.unwrap().ends_with("`page: 2` continues]"));
        let count = cut(&text).len();
        let last = page(&text, count).unwrap();
        assert!(
            last.text.starts_with("NAME KIND STATUS\n") && last.text.contains("job-199 "),
            "{last:?}"
        );
        assert_eq!(last.trailer.unwrap(), format!("[page {count} of {count}]"));
        assert_eq!(
            page("\n", 1),
            Ok(AnswerPage {
                text: "(nothing)".to_owned(),
                trailer: None,
                count: 1,
            })
        );
    }

    #[test]
    fn a_page_out_of_range_is_an_error() {
        assert_eq!(
            page("a\nb\n", 2).unwrap_err().to_string(),
            "`page` is 2, but the answer has only one page\nhint: call the tool again without `page`"
        );
        let text = "x\n".repeat(2000);
        assert!(
            page(&text, 99)
                .unwrap_err()
                .to_string()
                .contains("pages 1 to 3")
        );
        assert!(
            page(&text, 0).is_err() && page(&text, usize::MAX).is_err() && page(&text, 3).is_ok()
        );
    }

    proptest! {
        #[test]
        fn pages_are_small_and_complete(lines in prop::collection::vec("[a-zä ]{0,4000}", 0..12)) {
            let text = lines.join("\n");
            let pages = cut(&text);
            prop_assert!(pages.iter().all(|page| page.len() <= PAGE));
            let without = |text: &str| text.replace('\n', "");
            prop_assert_eq!(without(&pages.concat()), without(&text));
        }
    }
}
