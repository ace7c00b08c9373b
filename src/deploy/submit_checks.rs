//! Checks the documents and options of a submission before the first request.

use crate::deploy::inputs::InputDocument;
use crate::deploy::options::{DocumentKind, SubmitOptions, WaitGoal};
use crate::deploy::plan::job;
use gpuctl_core::error::{Error, ErrorName};

/// Fails if documents and options contradict each other.
pub(crate) fn check(inputs: &[InputDocument], options: &SubmitOptions) -> Result<(), Error> {
    refuse_other_kinds(inputs, options)?;
    if options.wait == Some(WaitGoal::Complete)
        && let Some(input) = inputs
            .iter()
            .find(|input| job(input).is_some_and(|job| job.kind.serves()))
    {
        let message = format!(
            "`{}` is a service or notebook: it never completes",
            input.document.name()
        );
        return Err(Error::usage(message).hint("use `--wait` to wait until it is ready"));
    }
    if options.follow {
        check_followable(inputs)?;
    }
    if options.timeout.is_some() && options.wait.is_none() && !options.follow {
        return Err(
            Error::usage("`--timeout` limits `--wait` and `--follow`, but neither is set")
                .hint("add `--wait`"),
        );
    }
    Ok(())
}

/// Enforces `--only-kind` before the first request. gpuctl checks parsed documents, because a
/// caller that reads the YAML in another way might get a different kind.
fn refuse_other_kinds(inputs: &[InputDocument], options: &SubmitOptions) -> Result<(), Error> {
    let Some(only) = options.only_kind else {
        return Ok(());
    };
    let is_other = |input: &&InputDocument| DocumentKind::from_document(&input.document) != only;
    let others: Vec<String> = inputs
        .iter()
        .filter(is_other)
        .map(|input| input.name().to_string())
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let message = format!(
        "only {} documents are accepted, but the manifest contains {}",
        only.word(),
        others.join(", ")
    );
    let error = Error::new(ErrorName::InvalidSpecification, message).note("nothing was submitted");
    let hint =
        "use a separate tool for each kind: `gpuctl mcp --allow-writes=jobs,pools,quotas,defaults`";
    Err(error.hint(hint))
}

/// Requires exactly one job, whose log must end.
fn check_followable(inputs: &[InputDocument]) -> Result<(), Error> {
    let jobs: Vec<&InputDocument> = inputs.iter().filter(|input| job(input).is_some()).collect();
    let [input] = jobs.as_slice() else {
        let message = format!(
            "`--follow` works with one job, but the files define {}",
            jobs.len()
        );
        return Err(Error::usage(message).hint("use `--wait=complete` to wait for several jobs"));
    };
    let name = input.document.name();
    if job(input).is_some_and(|job| job.kind.serves()) {
        let message = format!("`{name}` is a service or notebook, so its log never ends");
        return Err(
            Error::usage(message).hint(format!("use `--wait`, then run `gpuctl logs {name} -f`"))
        );
    }
    Ok(())
}
