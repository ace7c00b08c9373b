//! Tests the conversion of `sbatch` scripts.

use super::*;

#[test]
fn times_and_amounts_are_slurms() {
    for (text, seconds) in [
        ("90", Some(5400)),
        ("90:30", Some(5430)),
        ("12:00:00", Some(43_200)),
        ("2-12", Some(216_000)),
        ("1-00:30", Some(88_200)),
        ("1-01:01:01", Some(90_061)),
        ("UNLIMITED", None),
    ] {
        assert_eq!(slurm_time(text), seconds, "{text}");
    }
    assert_eq!(
        (memory("64G"), memory("4096"), memory("1T"), memory("x")),
        (Some(65_536), Some(4096), Some(1_048_576), None)
    );
    assert_eq!(gpus("gpu:a100:4"), Some((Some("a100".to_owned()), 4)));
    assert_eq!(gpus("8"), Some((None, 8)));
}
