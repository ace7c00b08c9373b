//! Expands Slurm's job arrays, such as `--array=0-9:2%4`. The syntax is documented in sbatch(1).

use super::ConvertError;

/// Limit on the number of generated documents, to keep the output readable.
const MOST: usize = 256;

/// Parses an array specification into its sorted indices and the optional limit of concurrent
/// tasks.
pub(super) fn indices(text: &str) -> Result<(Vec<u64>, Option<u64>), ConvertError> {
    let invalid = || {
        ConvertError::new(
            format!("invalid value `{text}` for `--array`"),
            "use `sbatch` syntax, such as 0-9, 1,3,5 or 0-15:4",
        )
    };
    let (list, limit) = match text.split_once('%') {
        Some((list, limit)) => (list, Some(limit.parse().map_err(|_| invalid())?)),
        None => (text, None),
    };
    let mut indices: Vec<u64> = Vec::new();
    for part in list.split(',') {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let numbers = (
            first.parse::<u64>(),
            last.parse::<u64>(),
            step.parse::<usize>(),
        );
        let (Ok(first), Ok(last), Ok(step)) = numbers else {
            return Err(invalid());
        };
        if first > last || step == 0 {
            return Err(invalid());
        }
        if usize::try_from(last - first)
            .ok()
            .is_none_or(|span| span / step >= MOST)
            || indices.len() > MOST
        {
            let message = format!("`--array={text}` defines more than {MOST} jobs");
            return Err(ConvertError::new(
                message,
                "convert the script without `--array`, and submit the job in a loop: gpuctl create -f job.yaml --name NAME-1 --set environment.env.SLURM_ARRAY_TASK_ID=1",
            ));
        }
        indices.extend((first..=last).step_by(step));
    }
    indices.sort_unstable();
    indices.dedup();
    Ok((indices, limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_their_indices() {
        assert_eq!(indices("0-3").unwrap(), (vec![0, 1, 2, 3], None));
        assert_eq!(indices("0-8:4").unwrap(), (vec![0, 4, 8], None));
        assert_eq!(indices("1,3,5%2").unwrap(), (vec![1, 3, 5], Some(2)));
        assert_eq!(indices("7").unwrap(), (vec![7], None));
        for invalid in ["", "a", "5-1", "0-9:0", "1-9999"] {
            assert!(indices(invalid).is_err(), "{invalid}");
        }
    }
}
