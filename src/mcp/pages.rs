//! Cuts an answer into pages that do not flood an agent's memory. A table's header is on each of them.

/// Bytes of a page, beside the line that says which one it is.
const PAGE: usize = 1900;

/// Returns a page, counted from 1, and what comes next.
#[must_use]
pub(super) fn page(text: &str, number: usize) -> String {
    let text = text.trim_end();
    if text.is_empty() {
        return "(nothing)".to_owned();
    }
    if text.len() <= PAGE {
        return text.to_owned();
    }
    let pages = cut(text);
    let number = number.clamp(1, pages.len());
    let more = match number < pages.len() {
        true => format!("; `page: {}` continues", number + 1),
        false => String::new(),
    };
    format!("{}\n[page {number} of {}{more}]", pages[number - 1], pages.len())
}

fn cut(text: &str) -> Vec<String> {
    let header = text.lines().next().filter(|line| is_header(line)).map(|line| format!("{line}\n")).unwrap_or_default();
    let mut pages = vec![String::new()];
    let body = text.strip_prefix(header.as_str()).unwrap_or(text);
    for line in body.split_inclusive('\n') {
        let mut rest = line;
        while !rest.is_empty() {
            let page = pages.last_mut().expect("there is a page");
            let room = PAGE.saturating_sub(header.len() + page.len());
            if rest.len() <= room {
                page.push_str(rest);
                break;
            }
            // A line that no page holds is broken; any other begins the next page.
            if page.is_empty() {
                let end = (0..=room.max(4)).rev().find(|end| rest.is_char_boundary(*end)).unwrap_or(rest.len());
                let (part, behind) = rest.split_at(end);
                page.push_str(part);
                rest = behind;
            }
            if !rest.is_empty() {
                pages.push(String::new());
            }
        }
    }
    pages.iter().map(|page| format!("{header}{}", page.trim_end_matches('\n'))).collect()
}

/// Titles of columns: words in capitals, and not too long.
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
        let rows: String = (0..200).map(|row| format!("job-{row:<20} training running\n")).collect();
        let text = format!("NAME KIND STATUS\n{rows}");
        let first = page(&text, 1);
        assert!(first.len() <= 2000 && first.starts_with("NAME KIND STATUS\njob-0 "), "{first}");
        assert!(first.ends_with("`page: 2` continues]"), "{first}");
        let last = page(&text, 99);
        assert!(last.starts_with("NAME KIND STATUS\n") && last.contains("job-199 ") && !last.contains("continues"), "{last}");
        assert_eq!((page("a\nb\n", 3).as_str(), page("\n", 1).as_str()), ("a\nb", "(nothing)"));
    }

    proptest! {
        #[test]
        fn pages_are_small_and_hold_everything(lines in prop::collection::vec("[a-zä ]{0,4000}", 0..12)) {
            let text = lines.join("\n");
            let pages = cut(&text);
            prop_assert!(pages.iter().all(|page| page.len() <= PAGE));
            let without = |text: &str| text.replace('\n', "");
            prop_assert_eq!(without(&pages.concat()), without(&text));
        }
    }
}
