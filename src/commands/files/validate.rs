//! `gpuctl validate`: reports errors in files, with `--server` also those that the cluster would
//! report. It writes nothing.

use std::process::ExitCode;

use crate::cli::files::validate::Validate;
use crate::concurrent::SideBySide;
use crate::context::Context;
use crate::deploy::AT_ONCE;
use crate::deploy::decide::Judging;
use crate::deploy::events::Reporter;
use crate::deploy::inputs::{self, InputDocument};
use crate::deploy::local_files::FileAccess;
use crate::deploy::namesakes::Namesakes;
use crate::deploy::options::{DryRun, Mode, SubmitOptions};
use crate::deploy::plan::{PlanningFacts, job, plan_each};
use crate::deploy::shared;
use crate::show::reporter::TerminalReporter;
use gpuctl_cluster::Connection;
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
    for name in inputs::names(&args.files)? {
        let (validated, documents) = look(&name, &access, &reporter)?;
        files.push(validated);
        readable.extend(documents);
    }
    if args.server {
        ask(readable, &mut files, context, &reporter).await?;
    }
    let (errors, warnings) = validated::counted(&files);
    let answer = document(format, &validated::document(&files, args.strict));
    context
        .terminal
        .print(&answer.unwrap_or_else(|| validated::text(&files, context.terminal.style())))?;
    let bad = errors > 0 || (args.strict && warnings > 0);
    Ok(if bad {
        ExitCode::from(ErrorKind::Specification.exit_code())
    } else {
        ExitCode::SUCCESS
    })
}

/// Checks a file without a cluster.
fn look(
    name: &str,
    access: &FileAccess,
    reporter: &dyn Reporter,
) -> Result<(Validated, Vec<InputDocument>), Error> {
    let mut one = match inputs::read(&[name.to_owned()], &[], access) {
        Ok(found) => found,
        Err(unreadable) => {
            let error = unreadable.tell(reporter);
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
    let Some(first) = one.documents.first() else {
        return Err(Error::new(
            ErrorName::InvalidSpecification,
            format!("`{name}` contains no documents"),
        ));
    };
    let (file, text) = (first.file.clone(), first.text.clone());
    let documents: Vec<Document> = one
        .documents
        .iter()
        .map(|input| input.document.clone())
        .collect();
    let mut list: Vec<Problem> = one
        .warnings
        .drain(..)
        .flat_map(|problems| problems.list)
        .collect();
    let silent = ignored_ids(&text);
    list.retain(|problem| !silent.iter().any(|id| id == problem.id));
    list.extend(checks::run(&text, &documents));
    for input in one.documents.iter().filter(|input| job(input).is_some()) {
        // Without a cluster, reject only what no cluster would accept.
        if let Err(error) = crate::deploy::plan::rendered_blindly(input) {
            list.push(of_error(&error, "unfit", Severity::Error));
        }
    }
    list.sort_by_key(|problem| (problem.at, problem.message.clone()));
    let named = documents
        .iter()
        .map(|document| (document.kind(), document.name().to_owned()))
        .collect();
    let files = one
        .documents
        .iter()
        .flat_map(|input| input.attached.files.clone())
        .collect();
    Ok((
        Validated {
            problems: Problems { file, text, list },
            documents: named,
            files,
        },
        one.documents,
    ))
}

/// Converts an error to a problem of its file, at the error's position if it has one.
fn of_error(error: &Error, id: &'static str, severity: Severity) -> Problem {
    let at = error
        .problems
        .as_ref()
        .and_then(|problems| problems.list.first())
        .map(|problem| problem.at);
    let message = match &error.problems {
        Some(problems) => problems
            .list
            .iter()
            .map(|problem| problem.message.clone())
            .collect::<Vec<_>>()
            .join("; "),
        None => error.to_string(),
    };
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
        at: at.unwrap_or_default(),
        severity,
        message,
        note,
        id,
    }
}

/// `--server` checks documents as `apply` would.
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
        let Some(of) = self.files.iter_mut().find(|of| of.problems.file == file) else {
            return;
        };
        if ignored_ids(&of.problems.text)
            .iter()
            .any(|id| id == problem.id && problem.severity == Severity::Warning)
        {
            return;
        }
        if of.documents.len() > 1 {
            problem.message = format!("{name}: {}", problem.message);
        }
        if problem.at == FilePosition::default() {
            problem.at = FilePosition {
                line: 1,
                column: 1,
                width: 1,
            };
        }
        of.problems.list.push(problem);
    }

    fn add_error(&mut self, file: &str, name: &str, error: &Error) {
        self.add(file, name, of_error(error, "cluster", Severity::Error));
    }
}

/// Checks documents that are valid on their own against the cluster.
async fn ask(
    inputs: Vec<InputDocument>,
    files: &mut [Validated],
    context: &Context,
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    let connection = context.connect().await?;
    let mut facts = PlanningFacts::of(&connection).await?;
    let (shared, jobs): (Vec<InputDocument>, Vec<InputDocument>) =
        inputs.into_iter().partition(|input| job(input).is_none());
    facts.foresee(&shared);
    let mut findings = ClusterFindings { files };
    let how = SubmitOptions {
        mode: MODE,
        ..SubmitOptions::default()
    };
    for (input, refused) in shared::refusals(&shared, &how, context, reporter).await? {
        let FailedDocument {
            document: DocumentName { name, .. },
            error,
        } = refused;
        findings.add_error(&input.file, &name, &error);
    }
    if jobs.is_empty() {
        return Ok(());
    }
    ask_about_jobs(jobs, &connection, &facts, &mut findings, reporter).await
}

/// Checks jobs as `apply --dry-run=server` would.
async fn ask_about_jobs(
    jobs: Vec<InputDocument>,
    connection: &Connection,
    facts: &PlanningFacts,
    findings: &mut ClusterFindings<'_>,
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    let how = SubmitOptions {
        mode: MODE,
        dry_run: Some(DryRun::Server),
        ..SubmitOptions::default()
    };
    let mut judging = Judging::new(&how, facts, connection);
    let named: Vec<(String, String)> = jobs
        .iter()
        .map(|input| (input.file.clone(), input.document.name().to_owned()))
        .collect();
    let planned = match plan_each(jobs, Some(connection), facts, reporter).await {
        Ok(planned) => planned,
        // An outage says nothing about the files.
        Err(error) if error.kind == ErrorKind::Unreachable => return Err(error),
        // Still print the results that need no cluster.
        Err(error) => {
            named
                .iter()
                .for_each(|(file, name)| findings.add_error(file, name, &error));
            return Ok(());
        }
    };
    planned
        .iter()
        .flatten()
        .for_each(|plan| judging.foresee(plan));
    let namesakes = Namesakes::of(connection, planned.iter().flatten()).await;
    let asked = named
        .into_iter()
        .zip(planned)
        .map(async |((file, name), plan)| {
            let judged = match plan {
                Ok(plan) => judging.judge(plan, 0, &namesakes).await,
                Err(error) => Err(error),
            };
            (file, name, judged)
        });
    let mut answers = SideBySide::new(asked, AT_ONCE);
    while let Some((file, name, judged)) = answers.next().await {
        match judged {
            Ok(judged) => {
                for warning in judged.warnings {
                    let problem = Problem::warning(FilePosition::default(), warning, "");
                    findings.add(&file, &name, problem.of("cluster-note"));
                }
            }
            Err(error) if matches!(error.kind, ErrorKind::Unreachable) => return Err(error),
            Err(error) => findings.add_error(&file, &name, &error),
        }
    }
    Ok(())
}
