//! Lets the cockpit live: draws it, hands it keys, snapshots and lines of other commands, and fulfils what it wishes.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use super::own_program::{Answer, hand_over};
use super::read::Reader;
use crate::cli::carried::CarriedOptions;
use crate::cli::metrics::top::{Top, TopView};
use crate::cluster::Connection;
use crate::cockpit::{Cockpit, Tab, Wish, draw};
use crate::context::Context;
use crate::error::Error;
use crate::platform;
use crate::terminal::Verbosity;
use crate::terminal::screen::Screen;

/// Nobody reads faster.
const SHORTEST: Duration = Duration::from_millis(500);

pub(super) async fn live(args: &Top, context: &Context, connection: &Connection) -> Result<ExitCode, Error> {
    let reader = Reader::new(context, connection).await;
    // What it has to say about missing metrics and rights is said before the screen is taken.
    let snapshot = reader.look(true).await?;
    let own = || Connection::contexts(&context.access).ok().and_then(|(_, current)| current);
    let title = connection.context().map(ToOwned::to_owned).or_else(own).unwrap_or_else(|| connection.server().to_owned());
    let tab = match args.what {
        None | Some(TopView::Jobs) => Tab::Jobs,
        Some(TopView::Nodes) => Tab::Nodes,
        Some(TopView::Gpus) => Tab::Gpus,
    };
    let mut cockpit = Cockpit::new(title, context.terminal.look(), tab, context.read_only().is_some(), snapshot.clone());
    let talk = context.terminal.swap_talk(Verbosity::Errors);
    let ended = tokio::task::LocalSet::new().run_until(watch(args, &mut cockpit, connection, &reader, context)).await;
    context.terminal.swap_talk(talk);
    ended.map(|()| ExitCode::SUCCESS)
}

/// Goes on until somebody wants the end.
async fn watch(
    args: &Top,
    cockpit: &mut Cockpit,
    connection: &Connection,
    reader: &Reader<'_>,
    context: &Context,
) -> Result<(), Error> {
    let own: Vec<OsString> = CarriedOptions::of(std::env::args_os().collect()).cluster;
    let first = cockpit.snapshot.clone();
    let mut screen = Screen::enter()?;
    let mut events = Some(screen.events());
    let mut answer: Option<Answer> = None;
    let mut ended = std::pin::pin!(platform::ended_from_outside());
    let mut bell = connection.doorbell_of_nodes(args.interval.max(SHORTEST));
    let mut past = Some(Box::pin(reader.past(&first)));
    loop {
        let next = async {
            let fresh = bell.news(None).await;
            reader.look(fresh).await
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
                _ = &mut ended => return Ok(()),
                event = event => match event {
                    Some(event) => cockpit.take(&event),
                    None => return Ok(()),
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
                Some(Wish::Quit) => return Ok(()),
                Some(Wish::Stop) => answer = None,
                Some(Wish::Show(words)) => answer = Answer::begin(&own, &words),
                Some(Wish::Hand(words)) => {
                    // Keys are the other command's now.
                    drop(events.take());
                    screen.leave();
                    let code = hand_over(&own, &words).await;
                    if code != Some(0) {
                        let code = code.map_or_else(|| "it was ended by a signal".to_owned(), |code| format!("exit code {code}"));
                        context.terminal.pause(&format!("{code}; Enter goes back"));
                    }
                    screen.return_to()?;
                    events = Some(screen.events());
                    // Ctrl-C meant the other command.
                    ended.set(platform::ended_from_outside());
                }
            }
        }
    }
}
