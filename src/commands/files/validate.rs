//! `gpuctl validate`: checks files, and with `--server` also checks them against the cluster,
//! without writing.

use std::process::ExitCode;

use crate::cli::files::validate::Validate;
use crate::concurrent::OrderedConcurrent;
use crate::context::Context;
use crate::deploy::MAX_CONCURRENT;
use crate::deploy::decide::Decider;
use crate::deploy::events::Reporter;
use crate::deploy::existing_jobs::ExistingJobs;
use crate::deploy::inputs::{self, InputDocument};
use crate::deploy::local_files::FileAccess;
use crate::deploy::merged_errors::as_warning;
use crate::deploy::options::{Mode, SubmitOptions};
use crate::deploy::plan::{PlanningFacts, job, plan_each};
use crate::deploy::shared;
use crate::show::reporter::TerminalReporter;
use gpuctl_cluster::Connection;
use gpuctl_cluster::DryRun;
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::contract::submission::{DocumentName, FailedDocument};
use gpuctl_manifest::spec::checks::{self, by_id, ignored_ids};
use gpuctl_manifest::spec::{Document, FilePosition, Problem, Problems, Severity};
use gpuctl_view::files::validated;
use gpuctl_view::files::validated::Validated;
use gpuctl_view::{Format, document};

pub(crate) async fn run(args: &Validate, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    if let Some(check) = args.explain.as_deref().and_then(by_id) {
        let text = document(format, &validated::check_document(check))
            .unwrap_or_else(|| validated::explained(check));
        context.terminal.print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let reporter = TerminalReporter::new(&context.terminal, format);
    let mut files = Vec::new();
    let mut readable = Vec::new();
    let access = args.local.access()?;
    for name in inputs::expand_all(&args.files)? {
        let (validated, documents) = validate_file(&name, &access, &reporter)?;
        files.push(validated);
        readable.extend(documents);
    }
    if args.server {
        check_server(readable, &mut files, context, &reporter).await?;
    }
    let (errors, warnings) = validated::counted(&files);
    let answer = document(format, &validated::document(&files, args.strict));
    context
        .terminal
        .print(&answer.unwrap_or_else(|| validated::text(&files, context.terminal.style())))?;
    let has_failed = errors > 0 || (args.strict && warnings > 0);
    Ok(if has_failed {
        ExitCode::from(ErrorKind::Specification.exit_code())
    } else {
        ExitCode::SUCCESS
    })
}

/// Checks a file without a cluster.
fn validate_file(
    name: &str,
    access: &FileAccess,
    reporter: &dyn Reporter,
) -> Result<(Validated, Vec<InputDocument>), Error> {
    let mut inputs = match inputs::read(&[name.to_owned()], &[], access) {
        Ok(inputs) => inputs,
        Err(unreadable) => {
            let error = unreadable.report(reporter);
            let Some(problems) = error.problems else {
                return Err(error);
            };
            return Ok((
                Validated {
                    problems: *problems,
                    documents: Vec::new(),
                    files: Vec::new(),
                },
                Vec::new(),
            ));
        }
    };
    let Some(first) = inputs.documents.first() else {
        return Err(Error::new(
            ErrorName::InvalidSpecification,
            format!("`{name}` contains no documents"),
        ));
    };
    let (file, text) = (first.file.clone(), first.text.clone());
    let documents: Vec<Document> = inputs
        .documents
        .iter()
        .map(|input| input.document.clone())
        .collect();
    let mut list: Vec<Problem> = inputs
        .warnings
        .drain(..)
        .flat_map(|problems| problems.list)
        .collect();
    let silenced_ids = ignored_ids(&text);
    list.retain(|problem| !silenced_ids.iter().any(|id| id == problem.id));
    list.extend(checks::run(&text, &documents));
    for input in inputs.documents.iter().filter(|input| job(input).is_some()) {
        // Without a cluster, report only what every cluster rejects.
        if let Err(error) = crate::deploy::plan::render_without_cluster(input) {
            list.push(problem_of_error(&error, "unfit", Severity::Error));
        }
    }
    list.sort_by_key(|problem| (problem.at, problem.message.clone()));
    let document_names = documents
        .iter()
        .map(|document| (document.kind(), document.name().to_owned()))
        .collect();
    let files = inputs
        .documents
        .iter()
        .flat_map(|input| input.attached.files.clone())
        .collect();
    Ok((
        Validated {
            problems: Problems { file, text, list },
            documents: document_names,
            files,
        },
        inputs.documents,
    ))
}

/// Converts an error to a problem of its file, with the position if the error has one.
fn problem_of_error(error: &Error, id: &'static str, severity: Severity) -> Problem {
    let position = error
        .problems
        .as_ref()
        .and_then(|problems| problems.list.first())
        .map(|problem| problem.at);
    let notes = error
        .problems
        .iter()
        .flat_map(|problems| problems.list.iter().map(|problem| problem.note.clone()));
    let note = notes
        .chain(error.hints.clone())
        .filter(|note| !note.is_empty())
        .collect::<Vec<_>>()
        .join("; ");
    Problem {
        at: position.unwrap_or_default(),
        severity,
        message: as_warning(error),
        note,
        id,
    }
}

/// `--server` checks documents like `apply` does.
const MODE: Mode = Mode::Apply {
    force_conflicts: true,
    replace: true,
};

/// Adds the cluster's errors and warnings to the results of the files.
struct ClusterFindings<'f> {
    files: &'f mut [Validated],
}

impl ClusterFindings<'_> {
    fn add(&mut self, file: &str, name: &str, mut problem: Problem) {
        let Some(file_result) = self
            .files
            .iter_mut()
            .find(|file_result| file_result.problems.file == file)
        else {
            return;
        };
        if ignored_ids(&file_result.problems.text)
            .iter()
            .any(|id| id == problem.id && problem.severity == Severity::Warning)
        {
            return;
        }
        if file_result.documents.len() > 1 {
            problem.message = format!("{name}: {}", problem.message);
        }
        if problem.at == FilePosition::default() {
            problem.at = FilePosition {
                line: 1,
                column: 1,
                width: 1,
            };
        }
        file_result.problems.list.push(problem);
    }

    fn add_error(&mut self, file: &str, name: &str, error: &Error) {
        self.add(
            file,
            name,
            problem_of_error(error, "cluster", Severity::Error),
        );
    }
}

/// Checks documents against the cluster. They have passed all checks that need no cluster.
async fn check_server(
    inputs: Vec<InputDocument>,
    files: &mut [Validated],
    context: &Context,
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    let connection = context.connect().await?;
    let mut facts = PlanningFacts::read(&connection).await?;
    let (shared, jobs): (Vec<InputDocument>, Vec<InputDocument>) =
        inputs.into_iter().partition(|input| job(input).is_none());
    facts.add_planned(&shared);
    let mut findings = ClusterFindings { files };
    let options = SubmitOptions {
        mode: MODE,
        ..SubmitOptions::default()
    };
    for (input, refusal) in shared::refusals(&shared, &options, context, reporter).await? {
        let FailedDocument {
            document: DocumentName { name, .. },
            error,
        } = refusal;
        findings.add_error(&input.file, &name, &error);
    }
    if jobs.is_empty() {
        return Ok(());
    }
    check_jobs(jobs, &connection, &facts, &mut findings, reporter).await
}

/// Checks jobs like `apply --dry-run=server` does.
async fn check_jobs(
    jobs: Vec<InputDocument>,
    connection: &Connection,
    facts: &PlanningFacts,
    findings: &mut ClusterFindings<'_>,
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    let options = SubmitOptions {
        mode: MODE,
        dry_run: Some(DryRun::Server),
        ..SubmitOptions::default()
    };
    let mut decider = Decider::new(&options, facts, connection);
    let names: Vec<(String, String)> = jobs
        .iter()
        .map(|input| (input.file.clone(), input.document.name().to_owned()))
        .collect();
    let planned = match plan_each(jobs, Some(connection), facts, reporter).await {
        Ok(planned) => planned,
        // An unreachable cluster says nothing about the files.
        Err(error) if error.kind == ErrorKind::Unreachable => return Err(error),
        // Print the results of the other checks.
        Err(error) => {
            names
                .iter()
                .for_each(|(file, name)| findings.add_error(file, name, &error));
            return Ok(());
        }
    };
    planned
        .iter()
        .flatten()
        .for_each(|plan| decider.add_planned(plan));
    let existing_jobs = ExistingJobs::read(connection, planned.iter().flatten()).await;
    let decisions = names
        .into_iter()
        .zip(planned)
        .map(async |((file, name), plan)| {
            let decision = match plan {
                Ok(plan) => decider.decide(plan, 0, &existing_jobs).await,
                Err(error) => Err(error),
            };
            (file, name, decision)
        });
    let mut results = OrderedConcurrent::new(decisions, MAX_CONCURRENT);
    while let Some((file, name, decision)) = results.next().await {
        match decision {
            Ok(decision) => {
                for warning in decision.warnings {
                    let problem = Problem::warning(FilePosition::default(), warning, "");
                    findings.add(&file, &name, problem.with_id("cluster-note"));
                }
            }
            Err(error) if matches!(error.kind, ErrorKind::Unreachable) => return Err(error),
            Err(error) => findings.add_error(&file, &name, &error),
        }
    }
    Ok(())
}
