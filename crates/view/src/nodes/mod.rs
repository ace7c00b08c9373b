//! Renders nodes, pools and their GPUs.

pub mod describe;
pub mod document;
pub mod drain;
pub mod free;
pub mod gpu_types;
pub mod heatmap;
pub mod labels;
pub mod overview;
pub mod pools;
pub mod table;
