//! The numbers of GPUs that every list and description shows.

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::Count;

use crate::format::table::{Cell, Column, right};
use crate::format::text::or_dash;

/// Numbers of whole devices. `gpuTotal` is the sum of `gpuAllocatable` and `gpuLost`, and
/// `gpuAllocatable` the sum of `gpuUsable` and `gpuCordoned`.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GpuNumbers {
    /// Whole devices that the kubelet or a DRA driver offers to pods.
    gpu_allocatable: u64,
    /// Installed whole devices that are out of service.
    gpu_lost: u64,
    /// Allocatable whole devices on nodes that accept no new pods: cordoned, not ready or tainted.
    gpu_cordoned: u64,
    /// Allocatable whole devices on nodes that accept new pods, held or not.
    gpu_usable: u64,
    /// Allocatable whole devices that no pod holds and no job can get: their node accepts no new
    /// pods, or has no CPU or memory for a job. `null` when the holders are unknown.
    gpu_stranded: Option<u64>,
}

impl From<Count> for GpuNumbers {
    fn from(count: Count) -> Self {
        Self {
            gpu_allocatable: count.allocatable(),
            gpu_lost: count.lost,
            gpu_cordoned: count.cordoned,
            gpu_usable: count.usable(),
            gpu_stranded: count.stranded(),
        }
    }
}

/// The columns of the numbers that explain why GPUs are neither held nor free.
pub(super) const WITHHELD: [Column; 2] = [right("LOST"), right("CORDONED")];

/// Creates the cells of the columns `WITHHELD`.
pub(super) fn withheld(count: Count) -> [Cell; 2] {
    [count.lost, count.cordoned].map(|number| number.to_string().into())
}

/// Formats the numbers as in `3 held, 4 free, 1 lost`. Leaves out units that no job can get if there
/// are none.
pub(super) fn numbers_text(count: Count) -> String {
    let mut text = format!(
        "{} held, {} free",
        or_dash(count.used),
        or_dash(count.free())
    );
    text.push_str(&withheld_text(count));
    text
}

/// Formats the units that no job can get as in `, 1 lost, 8 cordoned, 2 without CPU or memory`.
pub(crate) fn withheld_text(count: Count) -> String {
    let parts = [
        (count.lost, "lost"),
        (count.cordoned, "cordoned"),
        (count.starved().unwrap_or(0), "without CPU or memory"),
    ];
    let parts = parts.iter().filter(|(number, _)| *number > 0);
    parts
        .map(|(number, word)| format!(", {number} {word}"))
        .collect()
}
