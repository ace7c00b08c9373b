//! Renders nodes, pools and their GPUs.

pub mod describe;
pub mod document;
pub mod drain;
pub mod free;
mod free_lines;
pub mod gpu_types;
pub mod heatmap;
pub mod labels;
pub mod node_description;
pub(crate) mod numbers;
pub mod overview;
pub mod overviews;
pub mod pool_description;
pub mod pool_use;
pub mod pools;
pub mod table;
