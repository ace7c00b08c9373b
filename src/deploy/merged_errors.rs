//! Merges errors about the same file, and formats them as warnings and notes.

use gpuctl_core::error::{Error, FilePosition, Problem, Problems};

/// Formats an error as one line, for warnings and for problems of a file.
pub(crate) fn as_warning(error: &Error) -> String {
    match &error.problems {
        Some(problems) => problems
            .list
            .iter()
            .map(|problem| problem.message.clone())
            .collect::<Vec<_>>()
            .join("; "),
        None => error.to_string(),
    }
}

/// Like `as_warning`, but with positions in the file if they are known.
fn as_note(error: &Error) -> String {
    let Some(problems) = &error.problems else {
        return as_warning(error);
    };
    let located = problems.list.iter().map(|problem| {
        let FilePosition { line, column, .. } = problem.at;
        format!("{}:{line}:{column}: {}", problems.file, problem.message)
    });
    located.collect::<Vec<_>>().join("; ")
}

/// Merges errors of one file that have the same name. A repeated mistake becomes one problem, with
/// the other lines in its note.
pub(crate) fn merge_by_file(errors: Vec<Error>) -> Vec<Error> {
    let mut merged: Vec<Error> = Vec::new();
    for error in errors {
        let earlier = merged.iter_mut().find(|earlier| {
            let files = (&earlier.problems, &error.problems);
            let (Some(first), Some(second)) = files else {
                return false;
            };
            earlier.name == error.name && first.file == second.file
        });
        match (earlier, error.problems) {
            (Some(earlier), Some(problems)) => {
                if let Some(first) = &mut earlier.problems {
                    first.list.extend(problems.list);
                }
            }
            (_, problems) => merged.push(Error { problems, ..error }),
        }
    }
    for error in &mut merged {
        if let Some(problems) = &mut error.problems {
            merge_repeated(problems);
            error.message = problems.to_string();
        }
    }
    merged
}

fn merge_repeated(problems: &mut Problems) {
    let mut merged: Vec<(Problem, Vec<String>)> = Vec::new();
    problems.list.sort_by_key(|problem| problem.at);
    for problem in problems.list.drain(..) {
        match merged
            .iter_mut()
            .find(|(first, _)| first.message == problem.message)
        {
            Some((first, lines)) if first.at != problem.at => {
                lines.push(problem.at.line.to_string());
            }
            Some(_) => {}
            None => merged.push((problem, Vec::new())),
        }
    }
    problems.list = merged
        .into_iter()
        .map(|(mut problem, mut lines)| {
            lines.dedup();
            if !lines.is_empty() {
                let separator = if problem.note.is_empty() { "" } else { "; " };
                let plural = if lines.len() == 1 { "" } else { "s" };
                problem.note.push_str(&format!(
                    "{separator}also in line{plural} {}",
                    lines.join(", ")
                ));
            }
            problem
        })
        .collect();
}

/// Merges several errors into one. The first error provides the message, and the others become
/// notes. Returns `None` for an empty list.
pub(crate) fn merge_errors(errors: Vec<Error>) -> Option<Error> {
    merge_by_file(errors)
        .into_iter()
        .reduce(|mut error, other| {
            error.notes.push(as_note(&other));
            let problems = other.problems.iter().flat_map(|problems| &problems.list);
            let notes: Vec<String> = problems.map(|problem| problem.note.clone()).collect();
            for hint in other.hints.into_iter().chain(notes) {
                if !hint.is_empty() && !error.hints.contains(&hint) {
                    error.hints.push(hint);
                }
            }
            error
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuctl_core::error::{ErrorKind, ErrorName};

    fn error(name: &'static str, line: usize, message: &str) -> Error {
        let at = FilePosition {
            line,
            column: 1,
            width: 1,
        };
        Error::new(ErrorName::reported(ErrorKind::NotFound, name), message)
            .hint("look")
            .in_file("f", "", at)
    }

    #[test]
    fn a_mistake_that_a_file_repeats_is_one_problem() {
        let errors = [3, 1, 2, 1].map(|line| error("PoolNotFound", line, "no pool"));
        let merged = merge_by_file(errors.to_vec());
        assert_eq!(merged.len(), 1);
        assert_eq!(merged[0].message, "f has 1 problem");
        let problem = &merged[0].problems.as_ref().unwrap().list[0];
        assert_eq!(
            (problem.at.line, problem.note.as_str()),
            (1, "look; also in lines 2, 3")
        );
    }

    #[test]
    fn errors_with_other_names_keep_their_positions() {
        let errors = vec![
            error("ClaimNotFound", 3, "no claim"),
            error("ClaimNotFound", 4, "no other claim"),
            error("SecretNotFound", 5, "no secret"),
        ];
        let merged = merge_errors(errors).unwrap();
        assert_eq!(merged.message, "f has 2 problems");
        assert_eq!(*merged.notes, ["f:5:1: no secret"]);
        assert_eq!(merged.kind, ErrorKind::NotFound);
    }
}
