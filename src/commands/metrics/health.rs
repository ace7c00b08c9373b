//! `gpuctl get health`: lists devices whose counters contradict «healthy». It requires Prometheus.

use std::process::ExitCode;

use futures::future::{join, try_join};

use crate::cli::metrics::health::GetHealth;
use crate::context::Context;
use crate::observe::list::{self, Listing, Round};
use crate::observe::live::{self, OF_DEVICES};
use crate::observe::metrics::{self, StoreUse};
use gpuctl_core::error::Error;
use gpuctl_core::stats::exporters::devices;
use gpuctl_core::stats::exporters::identity::ApiFacts;
use gpuctl_core::stats::score::gpu_health::{findings, growth};
use gpuctl_view::format::coverage::Coverage;
use gpuctl_view::score::gpu_health as view;

pub(crate) async fn run(args: &GetHealth, context: &Context) -> Result<ExitCode, Error> {
    let options = args.print.options();
    context.terminal.set_format(options.format);
    let connection = context.connect().await?;
    let asked = async {
        let prometheus = metrics::find(
            context,
            &connection,
            context.access.request_timeout,
            StoreUse::Devices,
        )
        .await?;
        let grown = async { Ok::<_, Error>(prometheus.now(&growth()).await?) };
        let answer = try_join(live::read(&prometheus, &OF_DEVICES, None), grown).await?;
        metrics::tell_warnings(context, &prometheus);
        Ok::<_, Error>(answer)
    };
    let (stock, asked) = join(connection.inventory().stock(), asked).await;
    let (stock, (moment, grown)) = (stock?, asked?);
    let facts = ApiFacts::of(&stock.inventory, stock.consumers.as_ref());
    let readings = devices::read(&moment, &stock.inventory, &facts);
    let found = findings(&readings.devices, &grown, &facts);
    if readings.devices.is_empty() {
        context
            .terminal
            .warn("Prometheus has no samples of GPUs; is a GPU exporter running and scraped?");
    }
    list::run(&options, context, async |_: Round<'_>| {
        let table =
            |format, headers| view::table(&found, format, headers, context.terminal.style());
        let answer = view::list(&found, Coverage::from(&readings));
        Ok(
            Listing::new(&options, &answer, "items", view::names(&found), table)
                .none("no GPU's counters contradict «healthy»"),
        )
    })
    .await
}
