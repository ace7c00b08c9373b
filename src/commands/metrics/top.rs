//! `gpuctl top`: shows nodes, jobs or GPUs by utilization, refreshed on a terminal, once in a pipe.

use std::process::ExitCode;
use std::time::Duration;

use futures::future::join3;

use crate::cli::metrics::top::{Top, TopView};
use crate::cluster::Connection;
use crate::context::Context;
use crate::error::Error;
use crate::model::{GpuCount, Point};
use crate::observe::metrics::{self, OF_DEVICES, StoreUse};
use crate::observe::workloads::KeptObjects;
use crate::platform;
use crate::prometheus::Prometheus;
use crate::stats::devices;
use crate::stats::identity::ApiFacts;
use crate::terminal::raw;
use crate::terminal::screen::Screen;
use crate::view::text::clean;
use crate::view::top::{self as view, TopHistory, TopLine};

/// Nobody reads faster.
const SHORTEST: Duration = Duration::from_millis(500);

/// How far back curves go, in milliseconds.
const PAST: i64 = 5 * 60 * 1000;

pub(crate) async fn run(args: &Top, context: &Context) -> Result<ExitCode, Error> {
    let connection = context.connect().await?;
    let prometheus = metrics::find(context, &connection, context.access.request_timeout, StoreUse::Devices).await?;
    let titles = match args.what {
        TopView::Nodes => ("NODE", "TYPE"),
        TopView::Jobs => ("JOB", "KIND"),
        TopView::Gpus => ("GPU", "HOLDER"),
    };
    let kept = KeptObjects::new();
    let lines = look(args, &connection, &prometheus, &kept, true).await?;
    metrics::tell_warnings(context, &prometheus);
    let look_of = context.terminal.look();
    if args.once || look_of.width.is_none() || context.access.bundle.is_some() {
        context.terminal.print(&view::table(&lines, titles, None, look_of))?;
        return Ok(ExitCode::SUCCESS);
    }
    let screen = Screen::enter();
    let mut keys = screen.has_keys().then(raw::stdin);
    let mut ended = std::pin::pin!(platform::ended_from_outside());
    let mut bell = connection.doorbell_of_nodes(args.interval.max(SHORTEST));
    let (mut past, mut lines, mut trouble) = (TopHistory::new(), lines, None::<String>);
    loop {
        let now = context.now().as_millisecond();
        for line in &lines {
            if let Some(value) = line.figures.utilization {
                past.entry(line.name.clone()).or_default().push(Point { at: now, value: value.0 });
            }
        }
        past.values_mut().for_each(|points| points.retain(|point| point.at > now - PAST));
        let head = match &trouble {
            Some(trouble) => format!("{}\n", clean(trouble)),
            None => format!("{} · {} · every {}s · q quits\n", connection.server(), prometheus.server, args.interval.as_secs()),
        };
        // The width may have changed.
        screen.draw(&(head + &view::table(&lines, titles, Some((&past, now - PAST, now)), context.terminal.look())));
        let next = async {
            let fresh = bell.news(None).await;
            look(args, &connection, &prometheus, &kept, fresh).await
        };
        let mut next = std::pin::pin!(next);
        let found = loop {
            let next_key = async {
                match &mut keys {
                    Some(keys) => keys.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                found = &mut next => break found,
                _ = &mut ended => return Ok(ExitCode::SUCCESS),
                // Ctrl-C and Ctrl-D come as letters here.
                key = next_key => if matches!(key.as_deref(), None | Some([b'q' | b'Q' | 3 | 4, ..])) {
                    return Ok(ExitCode::SUCCESS);
                },
            }
        };
        match found {
            Ok(found) => (lines, trouble) = (found, prometheus.take_warnings().pop()),
            // An outage passes; what was seen last stays.
            Err(error) => trouble = Some(format!("as of the last answer: {error}")),
        }
    }
}

/// Reads what is shown. Objects are read again when `fresh` ones are wanted, metrics every time.
async fn look(
    args: &Top,
    connection: &Connection,
    prometheus: &Prometheus<'_>,
    kept: &KeptObjects,
    fresh: bool,
) -> Result<Vec<TopLine>, Error> {
    let moment = metrics::moment(prometheus, &OF_DEVICES, None);
    let namespace = connection.namespace_is_explicit.then_some(connection.namespace.as_str());
    let owners = async {
        match args.what {
            TopView::Jobs => kept.owners.or(fresh, connection.owners(namespace)).await.map(Some),
            TopView::Nodes | TopView::Gpus => Ok(None),
        }
    };
    let (moment, stock, owners) = join3(moment, kept.stock.or(fresh, connection.stock()), owners).await;
    let (moment, mut stock, owners) = (moment?, stock?, owners?);
    let facts = ApiFacts::of(&stock.inventory, stock.consumers.as_deref());
    let readings = devices::read(&moment, &stock.inventory, &facts);
    stock.inventory.measure(&readings);
    let mut lines: Vec<TopLine> = match (args.what, owners) {
        (TopView::Gpus, _) => readings.devices.iter().map(view::of_gpu).collect(),
        (TopView::Jobs, Some(owners)) => {
            let found = owners.forest.workloads(&stock.inventory);
            let holding = found.iter().filter(|one| one.gpus_held() > GpuCount::ZERO || !one.slices.is_empty());
            let line = |one: &crate::model::Workload| {
                let pods: Vec<&str> = one.pods.iter().filter(|pod| !pod.ended()).map(|pod| pod.name.as_str()).collect();
                TopLine {
                    name: format!("{}/{}", one.top.namespace, one.top.name),
                    about: one.top.kind.clone(),
                    held: Some(one.gpus_held().0),
                    total: one.requested.0,
                    figures: readings.figures_of(&one.top.namespace, &pods),
                }
            };
            holding.map(line).collect()
        }
        _ => stock.inventory.hosts.iter().filter(|host| host.has_gpus()).map(view::of_node).collect(),
    };
    view::sort(&mut lines, args.sort_by.into());
    Ok(lines)
}
