//! `gpuctl score --watch`: repeats the analysis and prints, serves and writes its results. Counts
//! outages and keeps trying.

mod config;
mod pages;

use serde_json::json;
use std::cell::Cell;
use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use self::config::WatchedConfig;
use super::analysis::Analysis;
use super::analysis::analyze;
use super::outbound;
use super::settings::Settings;
use super::write;
use crate::cli::score::ScoreArgs;
use crate::cli::score::ScoreFormat;
use crate::cli::score::ScoreView;
use crate::context::Context;
use crate::outbound::sent_messages::SentMessages;
use crate::serve::PageServer;
use crate::serve::Pages;
use gpuctl_core::error::Error;
use gpuctl_core::error::ErrorKind;
use gpuctl_core::error::ErrorName;
use gpuctl_local::platform;
use gpuctl_view::Format;
use gpuctl_view::score::exposition::Analyses;
use gpuctl_view::score::list as view;
use gpuctl_view::score::summary;

/// How often to check the config file and the duration of the analysis.
const TICK: Duration = Duration::from_secs(1);

/// Number of intervals after which the last results are outdated.
const MAX_AGE_INTERVALS: u32 = 3;

/// Results so far.
#[derive(Default)]
struct WatchState {
    analyses: Analyses,
    last: Option<Analysis>,
    connected: bool,
    /// When the last analysis ended, or when the first one started if none has ended.
    ended: Option<Instant>,
    /// When the last successful analysis ended.
    succeeded: Option<Instant>,
}

struct ScoreWatch<'a> {
    args: &'a ScoreArgs,
    context: &'a Context,
    settings: RefCell<Settings>,
    state: RefCell<WatchState>,
    pages: Pages,
    /// Whether the scores are served, so that the log needs only a summary.
    is_serving: bool,
    /// Set by a signal. Calls in progress are completed, but no new ones are started.
    is_ending: Cell<bool>,
}

pub(crate) async fn run(
    args: &ScoreArgs,
    settings: Settings,
    context: &Context,
) -> Result<ExitCode, Error> {
    context.terminal.stream()?;
    let state = RefCell::new(WatchState {
        ended: Some(Instant::now()),
        ..WatchState::default()
    });
    let listen = args.listen.clone().or(settings.listen.clone());
    let hosts = if args.allow_host.is_empty() {
        settings.hosts.clone()
    } else {
        args.allow_host.clone()
    };
    let watch = ScoreWatch {
        args,
        context,
        settings: RefCell::new(settings),
        state,
        pages: Pages::default(),
        is_serving: listen.is_some(),
        is_ending: Cell::default(),
    };
    watch.refresh();
    let server = async {
        let Some(address) = &listen else {
            return std::future::pending().await;
        };
        let listen_error = |error| Error::new(ErrorName::ListenFailed, error);
        let server = PageServer::open(address, &hosts, watch.pages.clone())
            .await
            .map_err(listen_error)?;
        if let Some(address) = server.address() {
            context
                .terminal
                .announce(&format!("listening at http://{address}"));
        }
        server.run().await;
        Ok(())
    };
    let ticks = async {
        loop {
            tokio::time::sleep(TICK).await;
            watch.refresh();
        }
    };
    tokio::select! {
        result = watch.run_rounds() => result,
        listen_error = server => listen_error.map(|()| ExitCode::SUCCESS),
        () = ticks => unreachable!("ticks have no end"),
    }
}

impl ScoreWatch<'_> {
    /// Repeats the analysis until a signal arrives.
    async fn run_rounds(&self) -> Result<ExitCode, Error> {
        let mut end_signal = std::pin::pin!(platform::termination_signal());
        let mut memory = None;
        let mut config = WatchedConfig::new(self.context);
        let mut first = true;
        loop {
            let settings = self.settings.borrow().clone();
            let start = Instant::now();
            let connected = Cell::default();
            // Service account tokens rotate while the watch runs.
            self.context.renew_credentials();
            let analyzed = tokio::select! {
                analyzed = analyze(&settings, self.context, &connected) => analyzed,
                signal = &mut end_signal => return code(signal),
            };
            self.state.borrow_mut().connected = connected.get();
            match analyzed {
                Ok(analysis) => {
                    let mut publication =
                        std::pin::pin!(self.succeeded(analysis, &settings, first, &mut memory));
                    let mut signal = None;
                    loop {
                        tokio::select! {
                            result = &mut publication => break result?,
                            received = &mut end_signal, if signal.is_none() => {
                                signal = Some(received);
                                self.is_ending.set(true);
                            }
                        }
                    }
                    if let Some(signal) = signal {
                        return code(signal);
                    }
                }
                // An error of the first analysis that is not an outage ends the command, because
                // only the user can fix it.
                Err(error) if first && !is_outage(&error) => return Err(error),
                Err(error) => self.failed(&error, &settings),
            }
            first = false;
            loop {
                let remaining = self
                    .settings
                    .borrow()
                    .interval
                    .saturating_sub(start.elapsed());
                if remaining.is_zero() {
                    break;
                }
                tokio::select! {
                    () = tokio::time::sleep(remaining.min(TICK)) => {}
                    signal = &mut end_signal => return code(signal),
                }
                if self.reload_config(&mut config) {
                    // The new settings may contain another chat.
                    memory = None;
                    break;
                }
            }
        }
    }

    async fn succeeded(
        &self,
        mut analysis: Analysis,
        settings: &Settings,
        first: bool,
        memory: &mut Option<SentMessages>,
    ) -> Result<(), Error> {
        self.state
            .borrow_mut()
            .analyses
            .succeeded(analysis.took.as_secs_f64());
        if settings.ai.is_some() {
            // Publish the scores while the AI is still responding.
            self.publish(analysis.clone());
            let opinions = outbound::add_opinions(
                settings,
                &mut analysis,
                // A slow AI must not delay the next analysis.
                Some(settings.interval / 2),
                self.context,
            );
            tokio::select! {
                () = opinions => {}
                () = self.wait_for_end() => {}
            }
        }
        let text = {
            let listed = Analysis {
                devices: self.args.list(analysis.devices.clone()),
                ..analysis.clone()
            };
            let text = self.render(&listed, &self.state.borrow().analyses, first);
            self.publish(listed);
            text
        };
        self.textfile();
        if self.context.terminal.stdout_is_terminal() && self.args.output == ScoreFormat::Table {
            self.context.terminal.redraw(&text, true)?;
        } else {
            self.context.terminal.print(&text)?;
        }
        if self.is_ending.get() {
            return Ok(());
        }
        if let Some(plan) = &settings.notify
            && let Err(error) = outbound::notify(plan, memory, &analysis, self.context).await
        {
            self.context.terminal.warn(&error.to_string());
        }
        if let Some(plan) = &settings.control
            && let Err(error) = outbound::control(
                plan,
                settings.workers,
                &analysis,
                &self.is_ending,
                self.context,
            )
            .await
        {
            self.context.terminal.warn(&error.to_string());
        }
        Ok(())
    }

    /// Stores an analysis as the latest result.
    fn publish(&self, mut analysis: Analysis) {
        analysis.devices = self.args.list(std::mem::take(&mut analysis.devices));
        {
            let mut state = self.state.borrow_mut();
            (state.ended, state.succeeded) = (Some(Instant::now()), Some(Instant::now()));
            state.last = Some(analysis);
        }
        self.refresh();
    }

    async fn wait_for_end(&self) {
        while !self.is_ending.get() {
            tokio::time::sleep(TICK / 4).await;
        }
    }

    fn failed(&self, error: &Error, settings: &Settings) {
        {
            let mut state = self.state.borrow_mut();
            state.analyses.failed();
            state.ended = Some(Instant::now());
        }
        self.refresh();
        self.textfile();
        let seconds = settings.interval.as_secs();
        self.context
            .terminal
            .warn(&format!("analysis failed: {error}; retrying in {seconds}s"));
    }

    /// Renders the output: text, or one JSON object per line for programs.
    fn render(&self, analysis: &Analysis, analyses: &Analyses, first: bool) -> String {
        let (rows, at) = (&analysis.devices, analysis.at);
        let line = |value: serde_json::Value| format!("{value}\n");
        let item_line =
            |item: &view::ScoreItem| line(serde_json::to_value(item).expect("an item is JSON"));
        match (Format::from(self.args.output), self.args.what) {
            (Format::Json, ScoreView::Results) => {
                view::results(rows, at).iter().map(item_line).collect()
            }
            (Format::Json, ScoreView::Low) => {
                line(json!(view::low(rows, analysis.rules.thresholds.low, at)))
            }
            (Format::Json, ScoreView::Stats) => line(json!(summary::stats(rows))),
            (Format::Yaml, _) => format!(
                "---\n{}",
                self.args.text(analysis, analyses, true, self.context)
            ),
            (Format::Csv, _) => self.args.text(analysis, analyses, first, self.context),
            (_, ScoreView::Results) if self.prints_summary() => {
                summary::line(&summary::stats(rows), at, analysis.took)
            }
            _ => {
                let blank = if first || self.args.output == ScoreFormat::Prometheus {
                    ""
                } else {
                    "\n"
                };
                format!(
                    "{blank}{}",
                    self.args.text(analysis, analyses, true, self.context)
                )
            }
        }
    }

    /// Whether one line per analysis replaces the table: `/results` serves the rows, and the log of
    /// a pod would get a row per GPU every few minutes.
    fn prints_summary(&self) -> bool {
        self.is_serving
            && self.args.output == ScoreFormat::Table
            && !self.context.terminal.stdout_is_terminal()
    }

    /// Reloads the config file if it has changed. If the new file is invalid, the previous settings
    /// stay in effect. Returns true after a successful reload.
    fn reload_config(&self, config: &mut WatchedConfig) -> bool {
        if !config.has_changed(self.context) {
            return false;
        }
        let settings = self
            .args
            .settings(self.context)
            .and_then(|settings| self.context.reload().map(|()| settings));
        match settings {
            Ok(settings) => {
                self.context
                    .terminal
                    .note("reloaded the changed config file");
                self.settings.replace(settings);
                true
            }
            Err(error) => {
                self.context.terminal.warn(&format!(
                    "the changed config file is invalid, so the previous settings remain in use: {error}"
                ));
                false
            }
        }
    }

    fn textfile(&self) {
        let Some(path) = &self.args.textfile else {
            return;
        };
        if let Err(error) = write(path, &self.exposition()) {
            self.context.terminal.warn(&error.to_string());
        }
    }
}

fn is_outage(error: &Error) -> bool {
    matches!(
        error.kind,
        ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::Request
    )
}

/// Maps a signal to an exit code. Ctrl-C is an interrupt, but SIGTERM ends the command normally.
fn code(signal: u8) -> Result<ExitCode, Error> {
    match signal {
        platform::INTERRUPT => Ok(ExitCode::from(ErrorKind::Interrupted.exit_code())),
        _ => Ok(ExitCode::SUCCESS),
    }
}
