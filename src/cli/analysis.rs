//! One analysis: what the held devices did over the window, and a score of each. Asks Prometheus and the API server at the
//! same time; what is told of it to whom is not known here.

use std::cell::Cell;
use std::time::Duration;

use futures::future::join;
use jiff::Timestamp;

use crate::error::Error;
use crate::prometheus::Window;
use crate::stats::dialect::Quantity;
use crate::stats::history::{self, Lifetimes};
use crate::stats::identity::Facts;
use crate::stats::scored::{Rules, Scored, scored};
use crate::stats::{devices, query};

use super::metrics::{self, OF_NODES};
use super::score_settings::Settings;
use super::{World, get_nodes};

/// What a score is made of.
const QUANTITIES: [Quantity; 8] = [
    Quantity::Utilization,
    Quantity::MemoryCopy,
    Quantity::MemoryUsed,
    Quantity::MemoryFree,
    Quantity::MemoryTotal,
    Quantity::Power,
    Quantity::PowerLimit,
    Quantity::Clock,
];

/// Devices with their scores as of a time.
#[derive(Clone, Debug)]
pub struct Analysis {
    pub devices: Vec<Scored>,
    pub rules: Rules,
    /// To the second.
    pub at: Timestamp,
    pub took: Duration,
}

/// Analyzes once. `connected` is told whether Prometheus answered, whatever else failed.
pub async fn analyze(settings: &Settings, world: &World, connected: &Cell<bool>) -> Result<Analysis, Error> {
    connected.set(false);
    let connection = world.connect().await?;
    let begun = world.now();
    let Settings { window, step, weights, thresholds, .. } = *settings;
    let rules = Rules { start: begun.as_second() - window, end: begun.as_second(), step, weights, thresholds };
    let span = Window { start: rules.start, end: rules.end, step };
    let asked = async {
        let prometheus = metrics::find(world, &connection, world.access.request_timeout).await?;
        let curves = query::gauges(&QUANTITIES, None);
        let (moment, series) = join(metrics::moment(&prometheus, &OF_NODES, None), prometheus.range(&curves, span)).await;
        metrics::tell_warnings(world, &prometheus);
        let answers = (moment?, series?);
        connected.set(true);
        Ok::<_, Error>(answers)
    };
    let (asked, stock) = join(asked, connection.stock()).await;
    let ((moment, series), stock) = (asked?, stock?);
    get_nodes::warn_of(&stock, world);
    let facts = Facts::of(&stock.inventory, stock.consumers.as_deref());
    let readings = devices::read(&moment, &stock.inventory, &facts);
    let history = history::read(&series, &facts, &Lifetimes::new());
    let mut devices = scored(&readings, &history, &stock.inventory, stock.consumers.as_deref(), &rules);
    if connection.namespace_is_explicit {
        let namespace = &connection.namespace;
        devices.retain(|device| device.reading.holders.iter().any(|(own, _)| own == namespace));
    }
    let at = Timestamp::from_second(begun.as_second()).unwrap_or(begun);
    let took = Duration::try_from(world.now().duration_since(begun)).unwrap_or_default();
    Ok(Analysis { devices, rules, at, took })
}
