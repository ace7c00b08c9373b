//! Runs a command in text and JSON form.

use serde_json::Value;

use super::answer::{StructureError, structured, uid};
use super::child::{CommandAccess, Output, RunError, Runner};
use super::mask::TextSource;
use super::tools::{AgentTool, Call};

/// Text output and structured content of a command.
pub(super) type BothForms = (Result<Output, RunError>, Result<Value, StructureError>);

/// Runs a command in text form and, with `wants_json`, again in JSON form. One run is not enough: a
/// table fits several times as many rows on a page as JSON, and `why` and `free` explain more in
/// text. The JSON is complete, so later pages do not need it.
pub(super) async fn both_forms(
    runner: &Runner,
    tool: &AgentTool,
    call: &Call,
    source: TextSource,
    wants_json: bool,
) -> BothForms {
    let structure = async {
        match wants_json {
            true => json_form(runner, tool, call, source).await,
            false => Err(StructureError::NotRequested),
        }
    };
    tokio::join!(runner.run(call, CommandAccess::Read), structure)
}

/// Runs a command in text form between two runs in JSON form. If both JSON runs show the same UID,
/// the text describes that object.
pub(super) async fn forms_of_one_object(
    runner: &Runner,
    tool: &AgentTool,
    call: &Call,
    source: TextSource,
) -> BothForms {
    let before = json_form(runner, tool, call, source).await;
    let output = runner.run(call, CommandAccess::Read).await;
    let after = json_form(runner, tool, call, source).await;
    (
        output.and_then(|output| of_one_object(output, &before, &after)),
        after,
    )
}

async fn json_form(
    runner: &Runner,
    tool: &AgentTool,
    call: &Call,
    source: TextSource,
) -> Result<Value, StructureError> {
    match tool.has_json {
        true => structured(
            runner.run(&call.as_json(), CommandAccess::Read).await?,
            source,
        ),
        false => Err(StructureError::NotRequested),
    }
}

/// Returns the output of the command that ran between two JSON runs.
///
/// # Errors
///
/// Fails if the JSON runs show different objects.
fn of_one_object(
    output: Output,
    before: &Result<Value, StructureError>,
    after: &Result<Value, StructureError>,
) -> Result<Output, RunError> {
    if uid(before) == uid(after) {
        return Ok(output);
    }
    Err(RunError::ObjectReplaced)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_that_is_replaced_during_its_preview_is_not_shown() {
        let preview_of = |before: &Result<Value, StructureError>,
                          after: &Result<Value, StructureError>| {
            let output = Output {
                stdout: "a".to_owned(),
                stderr: String::new(),
                code: Some(0),
                is_cut: false,
            };
            of_one_object(output, before, after).map(|output| output.stdout)
        };
        let job = |uid: &str| Ok(json!({"uid": uid}));
        let absent = || Ok(json!({"error": "NotFound"}));
        assert_eq!(preview_of(&job("1"), &job("1")).unwrap(), "a");
        assert_eq!(preview_of(&absent(), &absent()).unwrap(), "a");
        for (before, after) in [
            (job("1"), job("2")),
            (absent(), job("2")),
            (job("1"), absent()),
        ] {
            assert!(
                preview_of(&before, &after)
                    .unwrap_err()
                    .to_string()
                    .contains("during the preview")
            );
        }
    }
}
