//! Runs the cockpit's event loop: draws the screen, forwards keys, snapshots and command output,
//! and executes the cockpit's requests.

use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::current_program::{CommandEnd, CommandOutput, CurrentProgram};
use super::read::SnapshotReader;
use crate::cli::inherited_options::InheritedOptions;
use crate::cli::metrics::top::{Top, TopView};
use crate::context::Context;
use crate::terminal::Verbosity;
use crate::terminal::screen::{InputEvents, Screen};
use gpuctl_cluster::{Connection, OtherPods};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_local::platform;
use gpuctl_view::cockpit::{Cockpit, CockpitAction, CockpitSnapshot, Curves, Tab, draw};

/// Pause between reads, as a multiple of the duration of the last read. A large cluster changes
/// constantly, so gpuctl would otherwise read without a pause.
const READ_PAUSE_FACTOR: u32 = 20;

/// Minimum refresh interval: people cannot read faster.
const MIN_INTERVAL: Duration = Duration::from_millis(500);

pub(super) async fn live(
    args: &Top,
    context: &Context,
    connection: &Connection,
) -> Result<ExitCode, Error> {
    let reader = SnapshotReader::new(context, connection, OtherPods::Named);
    // Print warnings about metrics and permissions before the cockpit takes over the screen.
    let snapshot = reader.read(true).await?;
    let current_context = || {
        Connection::contexts(&context.access)
            .ok()
            .and_then(|(_, current)| current)
    };
    let title = connection
        .context()
        .map(ToOwned::to_owned)
        .or_else(current_context)
        .unwrap_or_else(|| connection.server().to_owned());
    let tab = match args.what {
        None | Some(TopView::Jobs) => Tab::Jobs,
        Some(TopView::Nodes) => Tab::Nodes,
        Some(TopView::Gpus) => Tab::Gpus,
    };
    let mut cockpit = Cockpit::new(
        title,
        context.terminal.style(),
        (tab, args.sort_by.into()),
        context.read_only().is_some(),
        snapshot,
    );
    // Messages on stderr would overwrite the screen.
    let verbosity = context.terminal.swap_verbosity(Verbosity::Errors);
    // The tasks that read command output are not `Send`.
    let result = tokio::task::LocalSet::new()
        .run_until(watch(args, &mut cockpit, connection, &reader, context))
        .await;
    context.terminal.swap_verbosity(verbosity);
    result
}

/// Runs until the user quits or a signal arrives.
async fn watch(
    args: &Top,
    cockpit: &mut Cockpit,
    connection: &Connection,
    reader: &SnapshotReader<'_>,
    context: &Context,
) -> Result<ExitCode, Error> {
    let options = InheritedOptions::from_words(std::env::args_os().collect()).cluster;
    let token = context.access.overrides.token.clone();
    let program = CurrentProgram::find(options, token).map_err(|error| {
        Error::new(
            ErrorName::SessionFailed,
            format!("cannot find the gpuctl executable: {error}"),
        )
    })?;
    let first = cockpit.snapshot.clone();
    context.terminal.stream()?;
    let screen = Screen::enter()?;
    let mut session = CockpitSession {
        events: Some(screen.events()),
        screen,
        output: None,
        end_signal: Box::pin(platform::termination_signal()),
        cockpit,
        program,
        context,
    };
    let mut notifications = connection.watch_nodes(args.interval.max(MIN_INTERVAL));
    let mut earlier_curves = Some(Box::pin(reader.past(&first)));
    // Whether a change was reported since the last read, and the time and duration of this read.
    let (mut has_changed, mut read_at, mut read_duration) = (false, Instant::now(), Duration::ZERO);
    loop {
        let next = async {
            has_changed |= notifications.changed(None).await;
            let fresh = has_changed && read_at.elapsed() >= read_duration * READ_PAUSE_FACTOR;
            let start = Instant::now();
            let result = reader.read(fresh).await;
            if fresh {
                (has_changed, read_at, read_duration) =
                    (result.is_err(), Instant::now(), start.elapsed());
            }
            result
        };
        if let Some(code) = session.run_until(pin!(next), &mut earlier_curves).await? {
            return Ok(code);
        }
    }
}

/// A future that resolves to the number of a terminating signal.
type Signal = Pin<Box<dyn Future<Output = u8>>>;

/// The cockpit on the screen, with a command whose output it displays.
struct CockpitSession<'a> {
    cockpit: &'a mut Cockpit,
    program: CurrentProgram,
    context: &'a Context,
    end_signal: Signal,
    output: Option<CommandOutput>,
    /// `None` while another command uses the terminal.
    events: Option<InputEvents>,
    // Must be the last field: fields are dropped in order, and the terminal must be restored last.
    screen: Screen,
}

impl CockpitSession<'_> {
    /// Draws and handles keys until the next snapshot is complete. Returns the exit code if the
    /// user quits.
    async fn run_until(
        &mut self,
        mut next: Pin<&mut impl Future<Output = Result<CockpitSnapshot, Error>>>,
        earlier_curves: &mut Option<Pin<Box<impl Future<Output = Curves>>>>,
    ) -> Result<Option<ExitCode>, Error> {
        loop {
            let cockpit = &mut *self.cockpit;
            self.screen.draw(|frame| draw(cockpit, frame))?;
            let request = tokio::select! {
                result = &mut next => {
                    match result {
                        Ok(snapshot) => self.cockpit.update(snapshot),
                        // Keep the last data on the screen, because outages are usually short.
                        Err(error) => self.cockpit.trouble = Some(error.to_string()),
                    }
                    return Ok(None);
                }
                signal = &mut self.end_signal => return Ok(Some(ExitCode::from(128 + signal))),
                event = or_never(self.events.as_mut().map(InputEvents::next)) => match event {
                    Some(event) => self.cockpit.take(&event),
                    None => return Ok(Some(ExitCode::SUCCESS)),
                },
                lines = or_never(self.output.as_mut().map(CommandOutput::next)) => {
                    self.show_lines(lines);
                    None
                }
                curves = or_never(earlier_curves.as_mut()) => {
                    *earlier_curves = None;
                    self.cockpit.curves.prepend_all(curves);
                    None
                }
            };
            if let Some(code) = self.handle_request(request).await? {
                return Ok(Some(code));
            }
        }
    }

    /// Adds output lines or the end of the command to the pane.
    fn show_lines(&mut self, lines: Result<Vec<String>, CommandEnd>) {
        match (lines, &mut self.cockpit.pane) {
            (Ok(lines), Some(pane)) => lines.into_iter().for_each(|line| pane.push(&line)),
            (Err(end), Some(pane)) => {
                pane.ended = Some(end.text);
                self.output = None;
            }
            (_, None) => self.output = None,
        }
    }

    /// Executes the request of a key press. Returns the exit code if the user quits.
    async fn handle_request(
        &mut self,
        request: Option<CockpitAction>,
    ) -> Result<Option<ExitCode>, Error> {
        match request {
            None => {}
            Some(CockpitAction::Quit) => return Ok(Some(ExitCode::SUCCESS)),
            Some(CockpitAction::Stop) => self.output = None,
            Some(CockpitAction::Show(words)) => match self.program.answer(&words) {
                Ok(output) => self.output = Some(output),
                Err(error) => {
                    show_error(self.cockpit, &format!("cannot start gpuctl: {error}"));
                }
            },
            Some(CockpitAction::RunInTerminal(words)) => return self.hand_over(&words).await,
        }
        Ok(None)
    }

    /// Hands the terminal to a command until it exits. Returns an exit code after a signal.
    async fn hand_over(&mut self, words: &[String]) -> Result<Option<ExitCode>, Error> {
        // Stop reading keys, because the command reads them.
        drop(self.events.take());
        self.screen.leave();
        let code = tokio::select! {
            code = self.program.run_in_terminal(words) => code,
            signal = end_signal(&mut self.end_signal) => return Ok(Some(ExitCode::from(128 + signal))),
        };
        let problem = match code {
            Ok(Some(0)) => None,
            Ok(Some(code)) => Some(format!("exit code {code}")),
            Ok(None) => Some("terminated by a signal".to_owned()),
            Err(error) => Some(format!("cannot start gpuctl: {error}")),
        };
        if let Some(problem) = problem {
            self.context
                .terminal
                .print_message(&format!("{problem}; press Enter to go back"));
            let mut keys = self.screen.events_without_screen()?;
            tokio::select! {
                () = keys.key() => {}
                signal = end_signal(&mut self.end_signal) => return Ok(Some(ExitCode::from(128 + signal))),
            }
        }
        self.screen.return_to()?;
        self.events = Some(self.screen.events());
        Ok(None)
    }
}

/// Awaits the future, or waits forever if it is `None`.
async fn or_never<T>(future: Option<impl Future<Output = T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Waits for a terminating signal while a child process uses the terminal. Ignores Ctrl-C, which
/// the child process handles.
async fn end_signal(signal: &mut Signal) -> u8 {
    loop {
        match signal.as_mut().await {
            platform::INTERRUPT => *signal = Box::pin(platform::termination_signal()),
            signal => return signal,
        }
    }
}

/// Displays an error in the pane.
fn show_error(cockpit: &mut Cockpit, message: &str) {
    if let Some(pane) = &mut cockpit.pane {
        pane.ended = Some(message.to_owned());
    }
}
