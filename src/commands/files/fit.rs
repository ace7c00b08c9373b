//! `gpuctl fit`: reports whether jobs fit on the cluster, without writing.

use std::process::ExitCode;

use crate::cli::files::fit::FitArgs;
use crate::context::Context;
use crate::deploy::fit::fit;
use crate::deploy::planned_files::{PlannedFiles, read_plans};
use crate::observe::starts;
use crate::show::reporter::TerminalReporter;
use gpuctl_core::error::{Error, ResultCode};
use gpuctl_core::model::counting::fit::FitVerdict;
use gpuctl_core::model::counting::start::StartForecast;
use gpuctl_view::jobs::fit::{FitRow, list, text};
use gpuctl_view::{Format, document};

pub(crate) async fn run(args: &FitArgs, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let PlannedFiles {
        connection, plans, ..
    } = read_plans(
        &args.files,
        &args.sets,
        &args.local.access()?,
        context,
        &TerminalReporter::new(&context.terminal, format),
    )
    .await?;
    if plans.is_empty() {
        context.terminal.report("these files contain no jobs");
    }
    let mut rows = Vec::new();
    for plan in plans {
        let fit = fit(&plan, args.by.as_deref(), &connection).await?;
        let start = match fit.verdict {
            // A forecast counts past starts on all nodes, so it would be wrong for the nodes of one
            // `--by` value. A queue admits jobs by quota, whatever the nodes have.
            FitVerdict::NotNow
                if args.by.is_none() && !fit.waits_for_claim() && !fit.waits_in_queue() =>
            {
                let forecast =
                    starts::forecast(context, &connection, fit.gpus(), &fit.possible(), 0.0)
                        .await?;
                StartForecast::bounded(forecast, fit.free_by, context.now())
            }
            _ => None,
        };
        rows.push(FitRow {
            name: plan.input.document.name().to_owned(),
            namespace: plan.target.namespace.clone(),
            kind: plan.input.document.kind(),
            fit,
            start,
        });
    }
    context.terminal.print(
        &document(format, &list(&rows))
            .unwrap_or_else(|| text(&rows, args.by.as_deref().unwrap_or_default())),
    )?;
    let worst = rows
        .iter()
        .map(|row| row.fit.verdict)
        .max()
        .unwrap_or(FitVerdict::Now);
    let code = match worst {
        FitVerdict::Now => return Ok(ExitCode::SUCCESS),
        FitVerdict::NotNow => ResultCode::NotNow,
        FitVerdict::Unknown => ResultCode::Undecided,
        FitVerdict::Never => ResultCode::NeverFits,
    };
    Ok(ExitCode::from(code.exit_code()))
}
