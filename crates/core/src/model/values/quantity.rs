//! Parses Kubernetes quantities (`128Gi`, `500m`) and durations (`90m`, `2d`).

use std::time::Duration;

/// Suffixes, each with a factor and a power of ten. Source: the grammar of quantities in the
/// Kubernetes API reference, and `suffix.go` of apimachinery.
const SUFFIXES: [(&str, i128, i32); 16] = [
    ("Ki", 1 << 10, 0),
    ("Mi", 1 << 20, 0),
    ("Gi", 1 << 30, 0),
    ("Ti", 1 << 40, 0),
    ("Pi", 1 << 50, 0),
    ("Ei", 1 << 60, 0),
    ("n", 1, -9),
    ("u", 1, -6),
    ("m", 1, -3),
    ("k", 1, 3),
    ("M", 1, 6),
    ("G", 1, 9),
    ("T", 1, 12),
    ("P", 1, 15),
    ("E", 1, 18),
    ("", 1, 0),
];

/// The largest quantity that Kubernetes allows, 2⁶³-1, in thousandths.
const LARGEST_MILLI: i128 = i64::MAX as i128 * 1000;
/// Maximum units of a device resource on one node. Some plugins count MiB of memory, so it is high,
/// but a sum over all nodes still fits into 64 bits.
const MOST_UNITS: u64 = 1_000_000_000;

/// Parses a quantity into thousandths of the base unit, rounded up as Kubernetes does. `None` if it
/// is invalid or negative. Limits it to the largest quantity, as Kubernetes does.
pub fn milli(text: &str) -> Option<i128> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let (number, factor, power) = SUFFIXES.iter().find_map(|(suffix, factor, power)| {
        let number = text.strip_suffix(suffix)?;
        // Require a digit or point before the suffix, because the empty suffix matches any text.
        number
            .ends_with(|c: char| c.is_ascii_digit() || c == '.')
            .then_some((number, *factor, *power))
    })?;
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        // An exponent takes the place of the suffix.
        Some(_) if number.len() < text.len() => return None,
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (number, power),
    };
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: String = [integer, fraction].concat();
    if digits.is_empty() || digits.len() > 24 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = digits.parse::<i128>().ok()?.checked_mul(factor)?;
    let to_milli = 3 - i32::try_from(fraction.len()).ok()?;
    let shift = exponent.checked_add(to_milli)?;
    let power_of_ten = 10_i128.saturating_pow(shift.unsigned_abs());
    let value = if shift >= 0 {
        value.saturating_mul(power_of_ten)
    } else {
        value.div_euclid(power_of_ten) + i128::from(value.rem_euclid(power_of_ten) > 0)
    };
    Some(value.min(LARGEST_MILLI))
}

/// Parses a number of device units, or returns `None` if no node can have that many.
pub fn units(text: &str) -> Option<u64> {
    whole(text).filter(|units| *units <= MOST_UNITS)
}

/// Parses a quantity into whole units, rounded up as in Kubernetes. Returns `None` if it is invalid
/// or does not fit into a `u64`.
pub fn whole(text: &str) -> Option<u64> {
    u64::try_from(milli(text)?.checked_add(999)? / 1000).ok()
}

/// Returns true if `text` ends with a unit, as in `128Gi`.
pub fn has_unit(text: &str) -> bool {
    text.ends_with(|c: char| c.is_ascii_alphabetic())
}

/// Formats bytes in the largest binary unit that divides them: `134217728` → `128Mi`.
pub fn binary(bytes: u64) -> String {
    let units = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let (mut value, mut unit) = (bytes, 0);
    while value != 0 && value.is_multiple_of(1024) && unit + 1 < units.len() {
        value /= 1024;
        unit += 1;
    }
    format!("{value}{}", units[unit])
}

/// Parses `30s`, `5m`, `1h30m` and `2d`. Returns `None` for anything else, including a number
/// without a unit.
pub fn duration(text: &str) -> Option<Duration> {
    let mut seconds: u64 = 0;
    let mut digits = String::new();
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let unit = match c {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return None,
        };
        seconds = digits
            .parse::<u64>()
            .ok()?
            .checked_mul(unit)?
            .checked_add(seconds)?;
        digits.clear();
    }
    (digits.is_empty() && !text.is_empty()).then_some(Duration::from_secs(seconds))
}

/// Formats a duration in the largest unit that divides it, such as `36h`.
pub fn duration_text(time: Duration) -> String {
    let seconds = time.as_secs();
    let unit = [(86_400, "d"), (3600, "h"), (60, "m")]
        .into_iter()
        .find(|(size, _)| seconds > 0 && seconds.is_multiple_of(*size));
    unit.map_or_else(
        || format!("{seconds}s"),
        |(size, name)| format!("{}{name}", seconds / size),
    )
}

/// Parses Slurm's times into seconds: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
/// days-hours:minutes[:seconds].
pub fn slurm_time(text: &str) -> Option<u64> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(days.parse::<u64>().ok()?), rest),
        None => (None, text),
    };
    let parts: Vec<u64> = rest
        .split(':')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let seconds = match (days, parts.as_slice()) {
        (None, [minutes]) => minutes.checked_mul(60)?,
        (None, [minutes, seconds]) => minutes.checked_mul(60)?.checked_add(*seconds)?,
        (Some(_), [hours]) => hours.checked_mul(3600)?,
        (Some(_), [hours, minutes]) => hours
            .checked_mul(3600)?
            .checked_add(minutes.checked_mul(60)?)?,
        (_, [hours, minutes, seconds]) => hours
            .checked_mul(3600)?
            .checked_add(minutes.checked_mul(60)?)?
            .checked_add(*seconds)?,
        _ => return None,
    };
    seconds.checked_add(days.unwrap_or(0).checked_mul(86_400)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_quantities() {
        for (text, expected) in [
            ("128Gi", Some(128 * 1024 * 1024 * 1_024_000)),
            ("500m", Some(500)),
            ("0.5", Some(500)),
            ("32", Some(32_000)),
            ("1e3", Some(1_000_000)),
            ("1.5k", Some(1_500_000)),
            ("1E", Some(1_000_000_000_000_000_000_000)),
            ("1Ei", Some(1024 * 1024 * 1024 * 1024 * 1024 * 1024 * 1000)),
            ("8Ei", Some(LARGEST_MILLI)),
            ("+1.5Gi", Some(1536 * 1024 * 1024 * 1000)),
            ("5.", Some(5000)),
            (".5", Some(500)),
            ("1500u", Some(2)),
            ("1n", Some(1)),
            ("0n", Some(0)),
            ("0.0001", Some(1)),
            ("1E3", Some(1_000_000)),
            ("1e+3", Some(1_000_000)),
            ("1.5e-2", Some(15)),
            ("1e-100", Some(1)),
            ("0e100", Some(0)),
            ("1e3Ki", None),
            ("1e3k", None),
            ("1EE", None),
            ("1e", None),
            (".", None),
            ("+", None),
            ("++1", None),
            ("-1Ki", None),
            ("1ki", None),
            ("1K", None),
            ("", None),
            ("Gi", None),
            ("-1", None),
            ("12Gib", None),
            ("1.2.3", None),
            ("9999999999999999999999999", None),
            ("1.5e-2147483648", Some(1)),
            ("9223372036854775807", Some(LARGEST_MILLI)),
            ("9223372036854775808", Some(LARGEST_MILLI)),
            ("10E", Some(LARGEST_MILLI)),
            ("1e30", Some(LARGEST_MILLI)),
            ("NaN", None),
            ("inf", None),
        ] {
            assert_eq!(milli(text), expected, "{text}");
        }
        assert_eq!(whole("100m"), Some(1));
        assert_eq!(whole("2500m"), Some(3));
        assert_eq!(
            (
                units("8"),
                units("1e9"),
                units("1000000001"),
                units("9223372036854775807")
            ),
            (Some(8), Some(1_000_000_000), None, None)
        );
        assert_eq!(binary(128 << 30), "128Gi");
        assert_eq!(binary(1536 << 20), "1536Mi");
        assert_eq!(binary(0), "0");
        assert_eq!(binary(2 << 60), "2Ei");
    }

    #[test]
    fn parses_every_suffix() {
        for (suffix, expected) in [
            ("n", 1),
            ("u", 3),
            ("m", 2048),
            ("", 2_048_000),
            ("k", 2_048_000_000),
            ("M", 2_048_000_000_000),
            ("G", 2_048_000_000_000_000),
            ("T", 2_048_000_000_000_000_000),
            ("P", 2_048_000_000_000_000_000_000),
            ("E", LARGEST_MILLI),
            ("Ki", 2_097_152_000),
            ("Mi", 2_147_483_648_000),
            ("Gi", 2_199_023_255_552_000),
            ("Ti", 2_251_799_813_685_248_000),
            ("Pi", 2_305_843_009_213_693_952_000),
            ("Ei", LARGEST_MILLI),
        ] {
            for sign in ["", "+"] {
                let text = format!("{sign}2048{suffix}");
                assert_eq!(milli(&text), Some(expected), "{text}");
            }
            assert_eq!(milli(&format!("-2048{suffix}")), None);
        }
    }

    #[test]
    fn formats_durations_in_their_largest_unit() {
        for text in ["2d", "36h", "90m", "45s", "0s"] {
            assert_eq!(duration_text(duration(text).unwrap()), text);
        }
    }

    #[test]
    fn parses_durations() {
        assert_eq!(duration("90m"), Some(Duration::from_secs(5400)));
        assert_eq!(duration("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!(duration("2d"), Some(Duration::from_secs(172_800)));
        for bad in ["", "30", "m", "1w", "-1s", "1.5h", "99999999999999999999d"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }
}
