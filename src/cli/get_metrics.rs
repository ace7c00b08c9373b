//! `get metrics` and `get training-performance`: what happened over a time. Metrics and nothing else, so without them there
//! is no answer.

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::engine::ArgValueCandidates;
use futures::future::join;
use jiff::Timestamp;

use crate::cluster::Connection;
use crate::error::Error;
use crate::model::{Job, Series, Workload};
use crate::prometheus::Window;
use crate::stats::dialect::Quantity;
use crate::stats::history::{self, History, Lifetimes};
use crate::stats::identity::Facts;
use crate::stats::query::{self, Pods};
use crate::stats::training::Measure;
use crate::view::document;
use crate::view::metrics::{self as view, JobCurves, JobMetric, Told};

use super::lookup::{self, Purpose};
use super::times::Span;
use super::told::{self, Speaker};
use super::{OneFormat, World, completion, metrics, workloads};

/// Show what GPUs did over a time
#[derive(Debug, Subcommand)]
pub enum GetMetrics {
    #[command(visible_alias = "jobs")]
    Job(JobMetrics),
    #[command(visible_alias = "workloads")]
    Workload(WorkloadMetrics),
}

/// Show the GPU utilization, memory and throughput of a job over time
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get metrics job qwen2-7b-sft
  gpuctl get metrics job qwen2-7b-sft --start 2h --step 1m -o json
  gpuctl get metrics job qwen2-7b-sft --metric gpuUtilization --per-gpu")]
pub struct JobMetrics {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(completion::job_names))]
    name: String,
    /// Only this metric; may be repeated
    #[arg(long, value_enum, value_name = "METRIC", value_delimiter = ',')]
    metric: Vec<Shown>,
    /// Show every GPU by itself
    #[arg(long)]
    per_gpu: bool,
    #[command(flatten)]
    span: Span,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "camelCase")]
enum Shown {
    GpuUtilization,
    MemoryUsage,
    Throughput,
}

impl From<Shown> for JobMetric {
    fn from(shown: Shown) -> Self {
        match shown {
            Shown::GpuUtilization => Self::GpuUtilization,
            Shown::MemoryUsage => Self::MemoryUsage,
            Shown::Throughput => Self::Throughput,
        }
    }
}

/// Show the GPU utilization, memory, power and TFLOPS of a workload over time
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get metrics workload Deployment/llama3-8b
  gpuctl get metrics workload 7c1f9f52-0d3c-4a53-9a6e-6f1d5a0a9d51 --start 1609459200 --end 1609462800 --step 300 -o json")]
pub struct WorkloadMetrics {
    /// Workload, as UID, KIND/NAME, NAMESPACE/KIND/NAME or NAME
    #[arg(add = ArgValueCandidates::new(completion::workload_names))]
    name: String,
    #[command(flatten)]
    span: Span,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

/// Show loss, speed and iteration of a training, from its own metrics and from its log
///
/// Lines of the common trainers are understood; what is not understood is left out.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get training-performance Job/qwen2-7b-sft
  gpuctl get training-performance qwen2-7b-sft --start 1h -o json | jq '.[] | select(.metric == \"loss\")'")]
pub struct TrainingPerformance {
    /// Workload, as UID, KIND/NAME, NAMESPACE/KIND/NAME or NAME
    #[arg(add = ArgValueCandidates::new(completion::workload_names))]
    name: String,
    #[command(flatten)]
    span: Span,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

/// Seconds between two points of a workload's curves: the document's default.
const WORKLOAD_STEP: i64 = 60;

pub async fn run(args: &GetMetrics, world: &World) -> Result<ExitCode, Error> {
    match args {
        GetMetrics::Job(args) => job(args, world).await,
        GetMetrics::Workload(args) => workload(args, world).await,
    }
}

async fn job(args: &JobMetrics, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let now = world.now();
    // What is wrong on the command line is told before anybody is asked.
    args.span.check(now)?;
    let connection = world.connect().await?;
    let found = lookup::job(&connection, &args.name, Purpose::Read).await?;
    let begin = found.started_at().or(found.created_at).unwrap_or(now);
    let window = args.span.window(now, (begin, found.ended_at().unwrap_or(now)), None)?;
    let pods = Pods::of_job(&found.namespace, &found.name, found.kind, found.pods.iter().map(|pod| pod.name.as_str()));
    let quantities = [Quantity::Utilization, Quantity::MemoryUsed];
    let lifetimes = lifetimes(&found);
    let curves = curves(world, &connection, &quantities, &pods, window, &lifetimes);
    let speakers = speakers(&found);
    let (curves, told) = join(curves, told::by_logs(&connection, &speakers, window, now.as_second())).await;
    let (history, exposed) = curves?;
    let mut told = told::with_exposed(told, &exposed);
    let throughput = [(Measure::TokensPerSecond, "tokens/sec"), (Measure::SamplesPerSecond, "samples/sec")]
        .into_iter()
        .find_map(|(measure, unit)| Some((told.remove(&measure)?, unit)));
    let (throughput, throughput_unit) = throughput.unzip();
    let curves = JobCurves {
        history: &history,
        throughput: throughput.unwrap_or_default(),
        throughput_unit,
        from: window.start * 1000,
        to: window.end * 1000,
    };
    let only: Vec<JobMetric> = args.metric.iter().map(|shown| (*shown).into()).collect();
    let text = document(args.output.into(), &view::job(&curves, &only))
        .unwrap_or_else(|| view::job_text(&curves, &only, args.per_gpu, world.terminal.look()));
    world.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn workload(args: &WorkloadMetrics, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let now = world.now();
    let window = args.span.window_of_an_hour(now, Some(WORKLOAD_STEP))?;
    let connection = world.connect().await?;
    let found = workloads::read(world, &connection, &[]).await?;
    let workload = workloads::named(&found.workloads, &args.name)?;
    let quantities = [Quantity::Utilization, Quantity::MemoryUsed, Quantity::MemoryFree, Quantity::MemoryTotal, Quantity::Power];
    let pods = pods_of(workload);
    let lifetimes = workload
        .pods
        .iter()
        .map(|pod| (pod.key(), (milliseconds(pod.started_at.or(pod.created_at)), milliseconds(pod.ended_at))))
        .collect();
    let curves = curves(world, &connection, &quantities, &pods, window, &lifetimes);
    let speakers = speakers_of(workload);
    let (curves, told) = join(curves, told::by_logs(&connection, &speakers, window, now.as_second())).await;
    let (history, exposed) = curves?;
    let told = told::with_exposed(told, &exposed);
    let text = document(args.output.into(), &view::workload(&history, &told))
        .unwrap_or_else(|| view::workload_text(&history, window.start * 1000, window.end * 1000, world.terminal.look()));
    world.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

pub async fn training(args: &TrainingPerformance, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let now = world.now();
    let window = args.span.window_of_an_hour(now, None)?;
    let connection = world.connect().await?;
    let found = workloads::read(world, &connection, &[]).await?;
    let workload = workloads::named(&found.workloads, &args.name)?;
    let exposed = async {
        let prometheus = metrics::find(world, &connection, world.access.request_timeout).await?;
        let pods = pods_of(workload);
        let asked =
            async { if pods.names.is_empty() { Ok(Vec::new()) } else { prometheus.range(&query::exposed(&pods), window).await } };
        let series = asked.await?;
        metrics::tell_warnings(world, &prometheus);
        Ok::<_, Error>(series)
    };
    let speakers = speakers_of(workload);
    let (exposed, told) = join(exposed, told::by_logs(&connection, &speakers, window, now.as_second())).await;
    let told: Told = told::with_exposed(told, &exposed?);
    let text = document(args.output.into(), &view::performance(&told))
        .unwrap_or_else(|| view::performance_text(&told, window.start * 1000, window.end * 1000, world.terminal.look()));
    world.terminal.print(&text)?;
    if told.is_empty() {
        world.terminal.note("it tells nothing about a training in this time, or in no way that is understood");
    }
    Ok(ExitCode::SUCCESS)
}

/// Curves of the devices of some pods, and what these expose of their work.
async fn curves(
    world: &World,
    connection: &Connection,
    quantities: &[Quantity],
    pods: &Pods,
    window: Window,
    lifetimes: &Lifetimes,
) -> Result<(History, Vec<Series>), Error> {
    let prometheus = metrics::find(world, connection, world.access.request_timeout).await?;
    // Without a name a selector would mean series of no pod.
    if pods.names.is_empty() {
        return Ok((History::default(), Vec::new()));
    }
    let (gauges, exposed) = (query::gauges(quantities, Some(pods)), query::exposed(pods));
    let (series, exposed) = join(prometheus.range(&gauges, window), prometheus.range(&exposed, window)).await;
    metrics::tell_warnings(world, &prometheus);
    Ok((history::read(&series?, &Facts::default(), lifetimes), exposed?))
}

fn milliseconds(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_millisecond)
}

/// When the job's pods lived, as far as they are still there to tell.
fn lifetimes(job: &Job) -> Lifetimes {
    let pods = job.pods.iter();
    pods.map(|pod| ((job.namespace.clone(), pod.name.clone()), (milliseconds(pod.started_at.or(pod.created_at)), None))).collect()
}

fn speakers(job: &Job) -> Vec<Speaker> {
    let speaker = |pod: &&crate::model::Pod| Speaker {
        namespace: job.namespace.clone(),
        pod: pod.name.clone(),
        container: pod.own_container().to_owned(),
    };
    job.current_pods().iter().map(speaker).collect()
}

/// Pods with devices, or all of them where none is left that has any.
fn pods_of(workload: &Workload) -> Pods {
    let any = workload.pods.iter().any(|pod| pod.gpus > 0);
    let meant = workload.pods.iter().filter(|pod| pod.gpus > 0 || !any);
    Pods::named(&workload.top.namespace, meant.map(|pod| pod.name.as_str()))
}

/// Pods with devices; a launcher without any speaks where there are none.
fn speakers_of(workload: &Workload) -> Vec<Speaker> {
    let mut pods: Vec<_> = workload.pods.iter().filter(|pod| pod.node.is_some()).collect();
    if pods.iter().any(|pod| pod.gpus > 0) {
        pods.retain(|pod| pod.gpus > 0);
    }
    let speaker = |pod: &&crate::model::workload::WorkPod| Speaker {
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        container: pod.container.clone(),
    };
    pods.iter().map(speaker).collect()
}
