//! `gpuctl get health`: lists devices whose counters report problems, and broken nodes. Devices
//! require Prometheus; nodes need only the API server.

use std::process::ExitCode;

use futures::future::{join, try_join};

use crate::cli::metrics::health::GetHealth;
use crate::context::Context;
use crate::observe::list::{self, Listing, Refresh};
use crate::observe::live::{self, DEVICE_QUANTITIES};
use crate::observe::metrics::{self, StoreUse};
use gpuctl_core::error::Error;
use gpuctl_core::stats::exporters::devices;
use gpuctl_core::stats::exporters::identity::ApiFacts;
use gpuctl_core::stats::score::gpu_health::{findings, growth, rank};
use gpuctl_core::stats::score::node_health::node_findings;
use gpuctl_view::format::coverage::Coverage;
use gpuctl_view::score::gpu_health as view;

pub(crate) async fn run(args: &GetHealth, context: &Context) -> Result<ExitCode, Error> {
    let options = args.print.options();
    context.terminal.set_format(options.format);
    let connection = context.connect().await?;
    let query = async {
        let prometheus = metrics::find(
            context,
            &connection,
            context.access.request_timeout,
            StoreUse::Devices,
        )
        .await?;
        let growth_series = async { Ok::<_, Error>(prometheus.now(&growth()).await?) };
        let answer = try_join(
            live::read(&prometheus, &DEVICE_QUANTITIES, None),
            growth_series,
        )
        .await?;
        metrics::print_warnings(context, &prometheus);
        Ok::<_, Error>(answer)
    };
    let (snapshot, query) = join(connection.inventory().snapshot(), query).await;
    let snapshot = snapshot?;
    let inventory = &snapshot.inventory;
    let facts = ApiFacts::from_inventory(inventory, snapshot.consumers.as_ref());
    let (mut findings, coverage, failure) = match query {
        Ok((reading, growth_series)) => {
            let readings = devices::read(&reading, inventory, &facts);
            let mut findings = findings(&readings.devices, &growth_series, &facts);
            findings.extend(node_findings(inventory, &readings.devices));
            if readings.devices.is_empty() {
                context
                    .terminal
                    .warn("Prometheus has no GPU samples; is a GPU exporter running and scraped?");
            }
            (findings, Some(Coverage::from(&readings)), None)
        }
        Err(error) => {
            context
                .terminal
                .warn("GPU metrics are unavailable, so only nodes were checked, not their GPUs");
            (node_findings(inventory, &[]), None, Some(error))
        }
    };
    rank(&mut findings);
    let none = match failure {
        None => "no GPU counters indicate a problem",
        Some(_) => "no node is broken or has lost GPUs",
    };
    let code = list::run(&options, context, async |_: Refresh<'_>| {
        let table =
            |format, headers| view::table(&findings, format, headers, context.terminal.style());
        let answer = view::list(&findings, coverage);
        Ok(Listing::new(&options, &answer, "items", view::names(&findings), table).none(none))
    })
    .await?;
    failure.map_or(Ok(code), Err)
}
