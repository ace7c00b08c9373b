//! Lets the cockpit live: draws it, hands it keys, snapshots and lines of other commands, and
//! fulfils what it wishes.

use std::pin::Pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::own_program::{Answer, OwnProgram};
use super::read::Reader;
use crate::cli::inherited_options::CarriedOptions;
use crate::cli::metrics::top::{Top, TopView};
use crate::context::Context;
use crate::terminal::Verbosity;
use crate::terminal::screen::Screen;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_local::platform;
use gpuctl_view::cockpit::{Cockpit, Tab, Wish, draw};

/// How many times longer than it took to read them objects are believed, however often they change:
/// in a large cluster they always do.
const REST: u32 = 20;

/// Nobody reads faster.
const SHORTEST: Duration = Duration::from_millis(500);

pub(super) async fn live(
    args: &Top,
    context: &Context,
    connection: &Connection,
) -> Result<ExitCode, Error> {
    let reader = Reader::new(context, connection);
    // What it has to say about missing metrics and rights is said before the screen is taken.
    let snapshot = reader.look(true).await?;
    let own = || {
        Connection::contexts(&context.access)
            .ok()
            .and_then(|(_, current)| current)
    };
    let title = connection
        .context()
        .map(ToOwned::to_owned)
        .or_else(own)
        .unwrap_or_else(|| connection.server().to_owned());
    let tab = match args.what {
        None | Some(TopView::Jobs) => Tab::Jobs,
        Some(TopView::Nodes) => Tab::Nodes,
        Some(TopView::Gpus) => Tab::Gpus,
    };
    let mut cockpit = Cockpit::new(
        title,
        context.terminal.look(),
        (tab, args.sort_by.into()),
        context.read_only().is_some(),
        snapshot,
    );
    let talk = context.terminal.swap_talk(Verbosity::Errors);
    let ended = tokio::task::LocalSet::new()
        .run_until(watch(args, &mut cockpit, connection, &reader, context))
        .await;
    context.terminal.swap_talk(talk);
    ended
}

/// Goes on until somebody wants the end.
async fn watch(
    args: &Top,
    cockpit: &mut Cockpit,
    connection: &Connection,
    reader: &Reader<'_>,
    context: &Context,
) -> Result<ExitCode, Error> {
    let own = OwnProgram::find(CarriedOptions::of(std::env::args_os().collect()).cluster).map_err(
        |error| {
            Error::new(
                ErrorName::SessionFailed,
                format!("cannot find the program itself: {error}"),
            )
        },
    )?;
    let first = cockpit.snapshot.clone();
    context.terminal.stream()?;
    let mut screen = Screen::enter()?;
    let mut events = Some(screen.events());
    let mut answer: Option<Answer> = None;
    let mut ended: Pin<Box<dyn Future<Output = u8>>> = Box::pin(platform::ended_from_outside());
    let mut bell = connection.doorbell_of_nodes(args.interval.max(SHORTEST));
    let mut past = Some(Box::pin(reader.past(&first)));
    // What changed since objects were read, when that was, and how long it took.
    let (mut has_news, mut read_at, mut took) = (false, Instant::now(), Duration::ZERO);
    loop {
        let next = async {
            has_news |= bell.news(None).await;
            let fresh = has_news && read_at.elapsed() >= took * REST;
            let start = Instant::now();
            let found = reader.look(fresh).await;
            if fresh {
                (has_news, read_at, took) = (found.is_err(), Instant::now(), start.elapsed());
            }
            found
        };
        let mut next = std::pin::pin!(next);
        loop {
            screen.draw(|frame| draw(cockpit, frame))?;
            let event = async {
                match &mut events {
                    Some(events) => events.next().await,
                    None => std::future::pending().await,
                }
            };
            let lines = async {
                match &mut answer {
                    Some(answer) => answer.next().await,
                    None => std::future::pending().await,
                }
            };
            let earlier = async {
                match &mut past {
                    Some(past) => past.await,
                    None => std::future::pending().await,
                }
            };
            let wish = tokio::select! {
                found = &mut next => {
                    match found {
                        Ok(snapshot) => cockpit.update(snapshot),
                        // An outage passes; what was seen last stays.
                        Err(error) => cockpit.trouble = Some(error.to_string()),
                    }
                    break;
                }
                signal = &mut ended => return Ok(ExitCode::from(128 + signal)),
                event = event => match event {
                    Some(event) => cockpit.take(&event),
                    None => return Ok(ExitCode::SUCCESS),
                },
                lines = lines => {
                    match (lines, &mut cockpit.pane) {
                        (Ok(lines), Some(pane)) => lines.into_iter().for_each(|line| pane.push(&line)),
                        (Err(end), Some(pane)) => {
                            pane.ended = Some(end);
                            answer = None;
                        }
                        (_, None) => answer = None,
                    }
                    None
                }
                curves = earlier => {
                    past = None;
                    cockpit.curves.precede(curves);
                    None
                }
            };
            match wish {
                None => {}
                Some(Wish::Quit) => return Ok(ExitCode::SUCCESS),
                Some(Wish::Stop) => answer = None,
                Some(Wish::Show(words)) => match own.answer(&words) {
                    Ok(begun) => answer = Some(begun),
                    Err(error) => told(cockpit, &format!("gpuctl cannot be started: {error}")),
                },
                Some(Wish::Hand(words)) => {
                    // Keys are the other command's now.
                    drop(events.take());
                    screen.leave();
                    let code = tokio::select! {
                        code = own.hand_over(&words) => code,
                        signal = asked_to_end(&mut ended) => return Ok(ExitCode::from(128 + signal)),
                    };
                    let trouble = match code {
                        Ok(Some(0)) => None,
                        Ok(Some(code)) => Some(format!("exit code {code}")),
                        Ok(None) => Some("it was ended by a signal".to_owned()),
                        Err(error) => Some(format!("gpuctl cannot be started: {error}")),
                    };
                    if let Some(trouble) = trouble {
                        context
                            .terminal
                            .tell(&format!("{trouble}; Enter goes back"));
                        let mut keys = screen.keys_alone()?;
                        tokio::select! {
                            () = keys.key() => {}
                            signal = asked_to_end(&mut ended) => return Ok(ExitCode::from(128 + signal)),
                        }
                    }
                    screen.return_to()?;
                    events = Some(screen.events());
                }
            }
        }
    }
}

/// Waits for a signal that ends this process while a child process has the terminal, and returns
/// it. Ctrl-C is for the child process.
async fn asked_to_end(ended: &mut Pin<Box<dyn Future<Output = u8>>>) -> u8 {
    loop {
        match ended.as_mut().await {
            platform::INTERRUPT => *ended = Box::pin(platform::ended_from_outside()),
            signal => return signal,
        }
    }
}

/// Shows in the pane why there is no answer.
fn told(cockpit: &mut Cockpit, trouble: &str) {
    if let Some(pane) = &mut cockpit.pane {
        pane.ended = Some(trouble.to_owned());
    }
}
