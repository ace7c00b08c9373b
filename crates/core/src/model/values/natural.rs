//! Orders names by the numbers in them: `sweep-2` before `sweep-10`.

use std::cmp::Ordering;

/// A text that is ordered by [`compare`], for the keys of a sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Natural<'a>(pub &'a str);

impl Ord for Natural<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.0, other.0)
    }
}

impl PartialOrd for Natural<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The sort key of an object with a namespace.
pub fn full_name<'a>(namespace: &'a str, name: &'a str) -> (Natural<'a>, Natural<'a>) {
    (Natural(namespace), Natural(name))
}

/// Sorts names.
pub fn sorted<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut names: Vec<T> = names.into_iter().collect();
    names.sort_by(|a, b| compare(a.as_ref(), b.as_ref()));
    names
}

/// Compares two names. Runs of digits are compared as numbers, and all other characters by their
/// code points. Names that differ only in leading zeros are ordered by their text, so that only
/// identical names are equal.
pub fn compare(a: &str, b: &str) -> Ordering {
    let start = common_start(a, b);
    let (mut rest_a, mut rest_b) = (&a[start..], &b[start..]);
    loop {
        let (part_a, part_b) = (first_part(rest_a), first_part(rest_b));
        let (Some(part_a), Some(part_b)) = (part_a, part_b) else {
            let order = rest_a.len().cmp(&rest_b.len());
            return order.then_with(|| a.cmp(b));
        };
        match compare_parts(part_a, part_b) {
            Ordering::Equal => {}
            order => return order,
        }
        (rest_a, rest_b) = (&rest_a[part_a.len()..], &rest_b[part_b.len()..]);
    }
}

/// The length of the common start of two names, without digits that continue behind it. Names in a
/// cluster have long common starts, and comparing bytes is much faster than comparing parts.
fn common_start(a: &str, b: &str) -> usize {
    let pairs = a.bytes().zip(b.bytes());
    let mut start = pairs.take_while(|(a, b)| a == b).count();
    let is_inside =
        |start: usize| !a.is_char_boundary(start) || a.as_bytes()[start - 1].is_ascii_digit();
    while start > 0 && is_inside(start) {
        start -= 1;
    }
    start
}

/// The run of digits, or the other character, at the start of a text. `None` if the text is empty.
fn first_part(text: &str) -> Option<&str> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let first = text.chars().next()?.len_utf8();
    Some(&text[..digits.max(first)])
}

fn compare_parts(a: &str, b: &str) -> Ordering {
    let is_number = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
    if !is_number(a) || !is_number(b) {
        // A digit and another character have the order of their code points, so that a number has
        // the same position among characters whatever its value is.
        return match (is_number(a), is_number(b)) {
            (true, false) => "0".cmp(b),
            (false, true) => a.cmp("0"),
            _ => a.cmp(b),
        };
    }
    // Without leading zeros, the longer number is the greater one. The length has no limit, unlike
    // an integer type.
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_in_names_are_compared_by_value() {
        let expected = [
            "a", "a-1", "a-1-9", "a-1-10", "a-2", "a-10", "a-100", "a1", "a01x", "a1x", "b",
        ];
        let mut reversed = expected;
        reversed.reverse();
        assert_eq!(sorted(reversed), expected);
    }

    #[test]
    fn long_numbers_and_leading_zeros_have_an_order() {
        let (small, great) = ("n99999999999999999999999", "n100000000000000000000000");
        assert_eq!(compare(small, great), Ordering::Less);
        assert_eq!(
            sorted(["a1", "a001", "a01", "a0"]),
            ["a0", "a001", "a01", "a1"]
        );
        assert_eq!(compare("é2", "é10"), Ordering::Less);
    }

    proptest! {
        #[test]
        fn the_order_is_total_and_consistent_with_equality(
            a in "[a0-2.-]{0,6}|\\PC{0,4}",
            b in "[a0-2.-]{0,6}|\\PC{0,4}",
            c in "[a0-2.-]{0,6}|\\PC{0,4}",
        ) {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            prop_assert_eq!(compare(&a, &b) == Ordering::Equal, a == b);
            if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
                prop_assert!(compare(&a, &c).is_le(), "{a:?} {b:?} {c:?}");
            }
        }

        #[test]
        fn numbers_of_the_same_prefix_are_in_the_order_of_their_values(
            prefix in "[a-z-]{0,5}",
            a in any::<u32>(),
            b in any::<u32>(),
        ) {
            let order = compare(&format!("{prefix}{a}"), &format!("{prefix}{b}"));
            prop_assert_eq!(order, a.cmp(&b));
        }
    }
}
