//! Building blocks of output: tables, text, CSV, charts, numbers and errors.

pub mod chart;
pub mod columns;
pub mod coverage;
pub mod csv;
pub mod errors;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
pub mod jsonpath;
pub(crate) mod named_lines;
pub mod objects;
pub mod parts;
pub mod row_contexts;
pub mod selection;
pub mod table;
pub mod text;
