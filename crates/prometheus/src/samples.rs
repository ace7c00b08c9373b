//! Extracts the samples of a response before serde_json parses the rest. One hour of data from a
//! large cluster has hundreds of thousands of samples, all in the form `[1700000000.5,"97"]`. A
//! list that contains anything else stays in the JSON.
//!
//! With serde_json alone, `stats cluster` over a week of 1,000 GPUs took 3.5 to 5 times as long as
//! Prometheus needs to respond. This parser and related changes reduce that to 1.4 times (`cargo
//! bench --bench history`).

use gpuctl_core::model::values::series::Point;

/// A response whose lists of samples have been replaced by their indexes in `lists`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CutResponse {
    pub rest: String,
    pub lists: Vec<Vec<Point>>,
}

/// Text before a list of samples. It cannot occur inside a JSON string, where its quotes would be
/// escaped.
const BEFORE: &str = "\"values\":";
/// Powers of ten that an `f64` represents exactly, up to the number of decimals of a short number.
const TENS: [f64; 16] = [
    1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
];

impl CutResponse {
    /// Extracts the lists of samples from a JSON response.
    pub(super) fn new(answer: &str) -> Self {
        let mut cut = Self::default();
        // Everything before this offset is already in `rest` or in a list.
        let mut copied = 0;
        let mut from = 0;
        while let Some(offset) = answer[from..].find('[') {
            let begin = from + offset;
            // Series of one response usually have similar lengths, so the last length predicts the
            // next.
            let length = cut.lists.last().map_or(0, Vec::len);
            let is_list = answer[..begin].ends_with(BEFORE);
            let Some((list, rest)) = is_list
                .then(|| list(&answer.as_bytes()[begin..], length))
                .flatten()
            else {
                from = begin + 1;
                continue;
            };
            cut.rest.push_str(&answer[copied..begin]);
            cut.rest.push_str(&cut.lists.len().to_string());
            cut.lists.push(list);
            copied = answer.len() - rest.len();
            from = copied;
        }
        cut.rest.push_str(&answer[copied..]);
        cut
    }
}

/// Parses `[[…],[…]]` and returns the text after it, or `None` for any other form. `length` is the
/// expected number of points.
fn list(text: &[u8], length: usize) -> Option<(Vec<Point>, &[u8])> {
    let mut list = Vec::with_capacity(length);
    let mut rest = after(text, b'[')?;
    loop {
        let (point, behind) = pair(rest)?;
        list.push(point);
        match behind {
            [b',', behind @ ..] => rest = behind,
            [b']', behind @ ..] => return Some((list, behind)),
            _ => return None,
        }
    }
}

fn pair(text: &[u8]) -> Option<(Point, &[u8])> {
    let text = after(text, b'[')?;
    let (first, rest) = eight_digits(text).unwrap_or((0, text));
    let (seconds, mut rest) = more_digits(first, text, rest);
    let long = text.len() - rest.len();
    // JSON numbers have no leading zeros.
    let is_number = (1..=12).contains(&long) && (long == 1 || text[0] != b'0');
    let mut time = i64::try_from(seconds).ok().filter(|_| is_number)? * 1000;
    if let [b'.', fraction @ ..] = rest {
        let (part, behind) = digits(fraction);
        // Times have at most three decimals. Leave a list with longer fractions to serde_json.
        time += [100, 10, 1].get((fraction.len() - behind.len()).checked_sub(1)?)?
            * i64::try_from(part).ok()?;
        rest = behind;
    }
    let (value, rest) = number(after(after(rest, b',')?, b'"')?)?;
    Some((Point { at: time, value }, after(after(rest, b'"')?, b']')?))
}

/// Strips one byte and returns the text after it.
fn after(text: &[u8], byte: u8) -> Option<&[u8]> {
    text.split_first()
        .filter(|(first, _)| **first == byte)
        .map(|(_, rest)| rest)
}

/// Parses at most sixteen digits and returns the text after them.
fn digits(text: &[u8]) -> (u64, &[u8]) {
    more_digits(0, text, text)
}

/// Continues a number with further digits and returns the text after them.
fn more_digits<'t>(mut number: u64, text: &[u8], mut rest: &'t [u8]) -> (u64, &'t [u8]) {
    while let [digit @ b'0'..=b'9', behind @ ..] = rest
        && text.len() - rest.len() < 16
    {
        number = number * 10 + u64::from(digit - b'0');
        rest = behind;
    }
    (number, rest)
}

/// Parses eight digits at once by combining neighboring digits into pairs, groups of four, and then
/// all eight (Daniel Lemire, «Quickly parsing eight digits»).
fn eight_digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let (eight, rest) = text.split_first_chunk::<8>()?;
    let digits = u64::from_le_bytes(*eight);
    let high = digits & 0xF0F0_F0F0_F0F0_F0F0;
    let carried = digits.wrapping_add(0x0606_0606_0606_0606) & 0xF0F0_F0F0_F0F0_F0F0;
    if high != 0x3030_3030_3030_3030 || carried != high {
        return None;
    }
    let pairs = (digits & 0x0F0F_0F0F_0F0F_0F0F).wrapping_mul((10 << 8) + 1) >> 8;
    let fours = (pairs & 0x00FF_00FF_00FF_00FF).wrapping_mul((100 << 16) + 1) >> 16;
    Some((
        (fours & 0x0000_FFFF_0000_FFFF).wrapping_mul((10_000 << 32) + 1) >> 32,
        rest,
    ))
}

/// Parses a number. The value of a short number is its digits divided by a power of ten. An `f64`
/// represents both exactly, so the quotient is correctly rounded. The standard library parses all
/// other numbers. Other text becomes NaN, which callers reject and count.
fn number(text: &[u8]) -> Option<(f64, &[u8])> {
    let (minus, unsigned) = after(text, b'-').map_or((false, text), |rest| (true, rest));
    let (integer, mut rest) = digits(unsigned);
    let (long, mut part, mut decimals) = (unsigned.len() - rest.len(), 0, 0);
    if let [b'.', fraction @ ..] = rest {
        (part, rest) = digits(fraction);
        decimals = fraction.len() - rest.len();
    }
    if long > 0 && long + decimals <= 15 && rest.first() == Some(&b'"') {
        let mut value = integer as f64;
        if decimals > 0 {
            value = (value * TENS[decimals] + part as f64) / TENS[decimals];
        }
        return Some((if minus { -value } else { value }, rest));
    }
    // Leave lists with backslashes, or with bytes that JSON strings cannot contain, to serde_json.
    let end = text
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\\' | ..b' '))?;
    let (number, rest) = text.split_at(end);
    std::str::from_utf8(number)
        .ok()
        .map(|text| (text.parse().unwrap_or(f64::NAN), rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unusual_samples_stay_in_the_text() {
        let cut =
            |values: &str| CutResponse::new(&format!(r#"{{"a":[],"values":{values},"b":2}}"#));
        for odd in [
            "[[1,\"2\"],[3,4]]",
            "[[1,\"2\" ]]",
            "[ [1,\"2\"]]",
            "[[1.2345,\"2\"]]",
            "[[1e9,\"2\"]]",
            "[[-1,\"2\"]]",
            "[[01,\"2\"]]",
            "[[0850000000,\"2\"]]",
            "[[1,\"\\u0032\"]]",
            "[[1,\"2\",3]]",
            "[]",
            "[[",
            "[[1,\"",
        ] {
            assert_eq!(
                cut(odd),
                CutResponse {
                    rest: format!(r#"{{"a":[],"values":{odd},"b":2}}"#),
                    lists: Vec::new()
                },
                "{odd}"
            );
        }
        let point = |at: i64, value: f64| Point { at, value };
        let two = cut(r#"[[1700000000.5,"97"],[1700000030.53,"-0.125"]]"#);
        assert_eq!(
            (two.rest.as_str(), &two.lists[..]),
            (
                r#"{"a":[],"values":0,"b":2}"#,
                &[vec![
                    point(1_700_000_000_500, 97.0),
                    point(1_700_000_030_530, -0.125)
                ]][..]
            )
        );
        let odd = cut(
            r#"[[1,"NaN"],[2,"+Inf"],[3,"x"],[4,""],[5,"1e-7"],[6,"."],[7,"12345678901234567890"]]"#,
        );
        let values: Vec<String> = odd.lists[0]
            .iter()
            .map(|point| point.value.to_string())
            .collect();
        assert_eq!(
            values,
            [
                "NaN",
                "inf",
                "NaN",
                "NaN",
                "0.0000001",
                "NaN",
                "12345678901234567000"
            ]
        );
        // Label names and values can contain the text that precedes a list.
        let label = r#"{"metric":{"x\"values":"\"values\":[[1,\"2\"]]"},"values":[[1,"2"]]}"#;
        assert_eq!(
            CutResponse::new(label).rest,
            r#"{"metric":{"x\"values":"\"values\":[[1,\"2\"]]"},"values":0}"#
        );
    }

    proptest! {
        #[test]
        fn parsed_numbers_are_the_nearest_floats(value in prop_oneof![any::<f64>(), (-1e6..1e6_f64), (0..100_u8).prop_map(f64::from)], decimals in 0_usize..20) {
            for text in [value.to_string(), format!("{value:.decimals$}"), format!("{value:e}")] {
                let cut = CutResponse::new(&format!(r#""values":[[1,"{text}"]]"#));
                prop_assert_eq!(cut.lists[0][0].value.to_bits(), text.parse::<f64>().unwrap().to_bits(), "{}", text);
            }
        }
    }
}
