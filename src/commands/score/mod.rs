//! `gpuctl score`: scores the use of each held GPU over a window. Requires Prometheus.

pub(crate) mod analysis;
pub(crate) mod outbound;
pub(crate) mod settings;
pub(crate) mod watch;

use std::cell::Cell;
use std::path::Path;
use std::process::ExitCode;

use analysis::{Analysis, analyze};
use settings::Settings;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::score::{ScoreArgs, ScoreFormat, ScoreSortKey, ScoreView};
use crate::context::Context;
use crate::lookup;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::values::natural;
use gpuctl_core::stats::score::selection::Scored;
use gpuctl_core::stats::score::value::Band;
use gpuctl_local::files;
use gpuctl_view::format::text::name_lines;
use gpuctl_view::score::exposition;
use gpuctl_view::score::exposition::Analyses;
use gpuctl_view::score::list as view;
use gpuctl_view::score::summary;
use gpuctl_view::{Format, document};

impl ScoreArgs {
    /// Resolves the settings from flags, environment and config file.
    pub(crate) fn settings(&self, context: &Context) -> Result<Settings, Error> {
        let mut settings = Settings::resolve(
            &self.scoring,
            &self.telling,
            self.watch.flatten(),
            &context.config()?,
        )?;
        context.terminal.set_verbosity(settings.verbosity);
        if context.access.bundle.is_some() {
            // A bundle's data is old, so do not send it to other systems, least of all to a control
            // system.
            (settings.ai, settings.notify, settings.control) = (None, None, None);
        }
        Ok(settings)
    }

    /// Selects and sorts the devices to list.
    pub(crate) fn list(&self, devices: Vec<Scored>) -> Vec<Scored> {
        let all = self.all && self.what == ScoreView::Results;
        let mut list: Vec<Scored> = devices
            .into_iter()
            .filter(|device| all || device.reading.held == Some(true))
            .collect();
        match self.sort_by {
            None => {}
            Some(ScoreSortKey::Score) => list.sort_by(|a, b| {
                let key = |row: &Scored| row.score.value.unwrap_or(f64::INFINITY);
                key(a).total_cmp(&key(b))
            }),
            Some(ScoreSortKey::Namespace) => {
                list.sort_by(|a, b| a.reading.holders.cmp(&b.reading.holders));
            }
            Some(ScoreSortKey::Node) => {
                list.sort_by(|a, b| natural::compare(&a.reading.node, &b.reading.node));
            }
        }
        list
    }

    /// Renders an analysis for stdout.
    pub(crate) fn text(
        &self,
        analysis: &Analysis,
        analyses: &Analyses,
        headers: bool,
        context: &Context,
    ) -> String {
        let (format, look) = (self.output.into(), context.terminal.style());
        let rows = &analysis.devices;
        let page = self.page.page(PAGE_SIZE);
        let list = |rows: &[Scored]| {
            if format == Format::Name {
                name_lines(&view::names(rows))
            } else if rows.is_empty() && format != Format::Csv {
                String::new()
            } else {
                view::table(rows, format, headers && !self.no_headers, look)
            }
        };
        match self.what {
            _ if self.output == ScoreFormat::Prometheus => {
                let scored = Some((&rows[..], &summary::stats(rows)));
                exposition::text(scored, analyses, analysis.cluster.as_deref())
            }
            ScoreView::Results => {
                let rows = page.select(rows.clone());
                document(format, &view::results(&rows, analysis.at)).unwrap_or_else(|| list(&rows))
            }
            ScoreView::Low => {
                let low = view::low(rows, analysis.rules.thresholds.low, analysis.at)
                    .only(|gpus| page.select(gpus));
                let low_rows = || {
                    list(
                        &page.select(
                            rows.iter()
                                .filter(|row| row.is_low())
                                .cloned()
                                .collect::<Vec<_>>(),
                        ),
                    )
                };
                document(format, &low).unwrap_or_else(low_rows)
            }
            ScoreView::Stats => {
                let stats = summary::stats(rows);
                document(format, &stats).unwrap_or_else(|| summary::stats_text(&stats))
            }
        }
    }
}

pub(crate) async fn run(args: &ScoreArgs, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let settings = args.settings(context)?;
    if args.watch.is_some() {
        context.must_change("remove `--watch`")?;
        return watch::run(args, settings, context).await;
    }
    let mut analysis = analyze(&settings, context, &Cell::default()).await?;
    if analysis.devices.is_empty() && context.access.namespace.is_some() {
        let connection = context.connect().await?;
        lookup::check_empty(&connection, lookup::explicit_namespace(&connection), true).await?;
    }
    outbound::add_opinions(&settings, &mut analysis, None, context).await;
    let mut analyses = Analyses::default();
    analyses.succeeded(analysis.took.as_secs_f64());
    // External systems get all held devices, whichever devices the user displays.
    let held_analysis = analysis.clone();
    analysis.devices = args.list(std::mem::take(&mut analysis.devices));
    context
        .terminal
        .print(&args.text(&analysis, &analyses, true, context))?;
    if args.output != ScoreFormat::Prometheus {
        if analysis.devices.is_empty() {
            context.terminal.note("no GPU is held");
        } else if args.what == ScoreView::Low && !analysis.devices.iter().any(Scored::is_low) {
            note_none_low(&analysis.devices, context);
        }
    }
    // Write all outputs, even after an error.
    let mut outcomes = Vec::new();
    if let Some(path) = &args.textfile {
        let text = exposition::text(
            Some((&analysis.devices, &summary::stats(&analysis.devices))),
            &analyses,
            analysis.cluster.as_deref(),
        );
        outcomes.push(write(path, &text));
    }
    if let Some(plan) = &settings.notify {
        outcomes.push(outbound::notify(plan, &mut None, &held_analysis, context).await);
    }
    if let Some(plan) = &settings.control {
        outcomes.push(
            outbound::control(
                plan,
                settings.workers,
                &held_analysis,
                &Cell::default(),
                context,
            )
            .await,
        );
    }
    let mut errors: Vec<Error> = outcomes.into_iter().filter_map(Result::err).collect();
    let last_error = errors.pop();
    errors.iter().for_each(|error| context.terminal.fail(error));
    last_error.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Reports that no GPU is low. An unknown score is not evidence of work.
fn note_none_low(devices: &[Scored], context: &Context) {
    let all = devices.len();
    let is_unknown = |device: &&Scored| device.score.band == Band::Unknown;
    match devices.iter().filter(is_unknown).count() {
        0 => context.terminal.note("no held GPU is low"),
        unknown if unknown == all => context.terminal.warn(&format!(
            "no score is known: {unknown} of {all} held GPUs have too few samples in the window"
        )),
        unknown => context.terminal.note(&format!(
            "no held GPU with a known score is low; {unknown} of {all} are unknown"
        )),
    }
}

/// Writes a world-readable file: node-exporter runs as another user.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Error> {
    let result = files::replace(path, text.as_bytes(), files::Purpose::Public);
    result.map_err(|error| Error::new(ErrorName::TextfileFailed, error))
}
