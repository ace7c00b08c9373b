//! The JSON Schema of every answer of `-o json`, made from the types that are printed. It knows
//! which command prints which type, and nothing of what is in them. The program carries the text of
//! the schemas, because the code that makes them is several times as large.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::bundle::BundleWritten;
use super::config::SettingItem;
use super::health::DoctorReport;
use super::rights::{RightsList, Verdict};
use super::version::Version;
use crate::files::changes::DifferenceItem;
use crate::files::converted::ConvertedItem;
use crate::files::defaults::{DefaultsList, WholeDefaults};
use crate::files::reference::Explanation;
use crate::files::validated::{CheckItem, Validation};
use crate::format::errors::ErrorDocument;
use crate::format::objects::ObjectList;
use crate::history::at_time::{DeviceAt, JobAt, ListAt, NodeAt};
use crate::history::blame::BlameList;
use crate::history::efficiency::EfficiencyDocument;
use crate::history::hourly::{ClusterRow, DimensionRow, NamespaceRow};
use crate::history::hourly_table::RowPage;
use crate::history::metrics::JobMetrics;
use crate::history::report_document::ReportDocument;
use crate::history::snapshot::Snapshot;
use crate::history::training_performance::Performance;
use crate::history::workload_graphs::Graphs;
use crate::jobs::claims::ClaimList;
use crate::jobs::copied::CopyResult;
use crate::jobs::created::{Created, Made, SubmissionBatch};
use crate::jobs::deleted::{Deleted, DeletionBatch};
use crate::jobs::description::JobDescription;
use crate::jobs::events::{EventDocument, EventList};
use crate::jobs::first_error::FirstErrorItem;
use crate::jobs::fit::FitItem;
use crate::jobs::list::JobList;
use crate::jobs::logs::{JsonLine, LogDocument};
use crate::jobs::opened::Opened;
use crate::jobs::scaled::Scaled;
use crate::jobs::secret::Written;
use crate::jobs::why::{WhyItem, WhyList};
use crate::nodes::document::{DetailList, NodeList};
use crate::nodes::drain::DrainPlan;
use crate::nodes::free::FreeAnswer;
use crate::nodes::gpu_types::GpuTypeList;
use crate::nodes::heatmap::Heatmap;
use crate::nodes::labels::{GpuLabelList, LabelList, Labelled, NodeBatch, NodeLabel};
use crate::nodes::node_description::NodeDocument;
use crate::nodes::overview::Overview;
use crate::nodes::pool_description::PoolDocument;
use crate::nodes::pools::PoolList;
use crate::queues::list::{QueueDescription, QueueList};
use crate::queues::preemptions::PreemptionList;
use crate::queues::quotas::QuotaList;
use crate::score::gpu_health::HealthList;
use crate::score::list::{Low, ScoreItem};
use crate::score::summary::ScoreStats;
use crate::workloads::consumers::ConsumerList;
use crate::workloads::describe::WorkloadDocument;
use crate::workloads::list::{WorkloadList, WorkloadMetadata};
use crate::workloads::tree::TreeItem;

/// Makes the schema of one type.
type Shape = fn(&mut SchemaGenerator) -> Schema;

/// A command, and the types that its options choose from.
macro_rules! answers {
    ($($name:literal: $($shape:ty),+;)*) => {
        const COMMANDS: &[&str] = &[$($name),*];
        const ANSWERS: &[(&str, &[Shape])] = &[$(($name, &[$(shape::<$shape>),+])),*];
    };
}

fn shape<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

answers! {
    "add node": NodeBatch;
    "apply": Created, Made, SubmissionBatch<'_>, ObjectList<'_>;
    "auth check": RightsList<'_>, Verdict, ObjectList<'_>;
    "config set": SettingItem<'_>;
    "config view": BTreeMap<String, BTreeMap<String, Value>>;
    "convert": Vec<ConvertedItem<'_>>;
    "cp": CopyResult;
    "create": Created, Made, SubmissionBatch<'_>, ObjectList<'_>;
    "create secret": Written;
    "delete": Deleted, DeletionBatch<'_>;
    "delete defaults": Deleted, DeletionBatch<'_>;
    "delete job": Deleted, DeletionBatch<'_>;
    "delete pool": Deleted, DeletionBatch<'_>;
    "delete quota": Deleted, DeletionBatch<'_>;
    "describe defaults": WholeDefaults<'_>;
    "describe job": JobDescription<'_>;
    "describe node": NodeDocument;
    "describe pool": PoolDocument;
    "describe queue": QueueDescription<'_>;
    "describe quota": QuotaList<'_>;
    "describe workload": WorkloadDocument;
    "diff": Vec<DifferenceItem<'_>>;
    "doctor": DoctorReport, BundleWritten<'_>;
    "drain": DrainPlan<'_>;
    "eff": EfficiencyDocument<'_>;
    "error": ErrorDocument<'_>;
    "events": EventList<'_>, EventDocument<'_>;
    "explain": Explanation<'_>;
    "fit": Vec<FitItem<'_>>;
    "free": FreeAnswer<'_>;
    "get claims": ClaimList<'_>;
    "get clusters": Vec<String>;
    "get consumers": ConsumerList;
    "get defaults": DefaultsList<'_>;
    "get dimension-keys": Vec<String>;
    "get dimension-values": Vec<String>;
    "get gpu-type": GpuTypeList, NodeLabel, GpuLabelList;
    "get health": HealthList<'_>;
    "get heatmap": Heatmap;
    "get jobs": JobList, ListAt<JobAt>;
    "get label": GpuTypeList, NodeLabel, GpuLabelList;
    "get metrics job": JobMetrics;
    "get metrics workload": Graphs;
    "get namespaces": Vec<String>;
    "get node-labels": GpuTypeList, NodeLabel, GpuLabelList;
    "get nodes": NodeList, DetailList, LabelList, ListAt<NodeAt>, BlameList<'_>;
    "get overview": Overview;
    "get pools": PoolList;
    "get queues": QueueList<'_>, PreemptionList<'_>;
    "get quotas": QuotaList<'_>;
    "get training-performance": Vec<Performance>;
    "get workload-metadata": WorkloadMetadata;
    "get workloads": WorkloadList;
    "label node": Labelled<'_>, NodeBatch;
    "logs": LogDocument<'_>, JsonLine<'_>, FirstErrorItem<'_>;
    "open": Opened;
    "pause job": Scaled;
    "remove node": NodeBatch;
    "report": ReportDocument<'_>;
    "restart job": Scaled;
    "resume job": Scaled;
    "run": Created, ObjectList<'_>;
    "scale": Scaled;
    "score": Vec<ScoreItem>, Low, ScoreStats;
    "snapshot latest": Snapshot;
    "snapshot list": Vec<Snapshot>;
    "stats cluster": Vec<ClusterRow>;
    "stats labels": Vec<DimensionRow>;
    "stats namespaces": Vec<NamespaceRow>;
    "stats workloads": RowPage;
    "tree": TreeItem<'_>;
    "validate": Validation<'_>, CheckItem<'_>;
    "version": Version<'_>;
    "who gpu": DeviceAt;
    "why": WhyItem<'_>, WhyList<'_>;
}

/// Returns the commands that have an answer, and `error`, which every command may have.
pub fn commands() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().copied()
}

/// Returns the names of all answers: the words of their commands joined by `-`.
pub fn names() -> impl Iterator<Item = String> {
    commands().map(name)
}

fn name(command: &str) -> String {
    command.replace(' ', "-")
}

/// What [`from_types`] made.
const TEXT: &str = include_str!("../../../../schemas/answers.json");

/// Returns the schema of an answer by its name; `None` where no command has it.
pub fn schema(name: &str) -> Option<Value> {
    let mut all: Map<String, Value> = serde_json::from_str(TEXT).expect("the schemas are JSON");
    all.remove(name)
}

/// Returns the schemas of all answers as the text of a JSON object, an answer on each line: what
/// the types of this version are.
pub fn from_types() -> String {
    let line = |(command, shapes): &(&str, &[Shape])| {
        format!("{}: {}", json!(name(command)), of_types(command, shapes))
    };
    let lines: Vec<String> = ANSWERS.iter().map(line).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

fn of_types(command: &str, shapes: &[Shape]) -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let shapes: Vec<Value> = shapes
        .iter()
        .map(|shape| shape(&mut generator).to_value())
        .collect();
    let mut schema = Map::new();
    schema.insert(
        "$schema".to_owned(),
        json!("https://json-schema.org/draft/2020-12/schema"),
    );
    schema.insert("title".to_owned(), json!(format!("gpuctl {command}")));
    match shapes.as_slice() {
        [Value::Object(one)] => schema.extend(one.clone()),
        several => drop(schema.insert("anyOf".to_owned(), json!(several))),
    }
    schema.insert("$defs".to_owned(), json!(generator.take_definitions(true)));
    Value::Object(schema)
}

/// Returns the schema of a line that a command prints with `--watch`, by the name of its answer: a
/// row, or the whole answer where it has no rows. Any of them where options choose between several.
pub fn line(name: &str) -> Option<Value> {
    let whole = schema(name)?;
    let shapes = whole["anyOf"]
        .as_array()
        .map_or_else(|| vec![&whole], |several| several.iter().collect());
    let line = |shape: &Value| {
        let found = shape["$ref"]
            .as_str()
            .and_then(|place| whole.pointer(place.strip_prefix('#')?))
            .unwrap_or(shape);
        let rows = [
            "/items",
            "/properties/items/items",
            "/properties/data/items",
        ];
        let row = rows.into_iter().find_map(|place| found.pointer(place));
        row.cloned()
            .unwrap_or_else(|| json!({"$ref": shape["$ref"]}))
    };
    Some(json!({
        "$schema": whole["$schema"],
        "title": format!("a line of {} --watch", whole["title"].as_str().unwrap_or_default()),
        "anyOf": shapes.into_iter().map(line).collect::<Vec<_>>(),
        "properties": {"deleted": {"const": true, "description": "The row is gone, and this is how it was."}},
        "$defs": whole["$defs"],
    }))
}
