//! Passes libFuzzer's inputs to one of gpuctl's readers, which `GPUCTL_FUZZ` selects by name.
#![no_main]

use std::sync::OnceLock;

use gpuctl::fuzz::{FuzzTarget, TARGETS};
use libfuzzer_sys::fuzz_target;

static READER: OnceLock<FuzzTarget> = OnceLock::new();

fn chosen() -> FuzzTarget {
    let name = std::env::var("GPUCTL_FUZZ").unwrap_or_default();
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    let target = TARGETS.iter().find(|(target, _)| *target == name);
    target.unwrap_or_else(|| panic!("GPUCTL_FUZZ is `{name}`, but must be one of {names:?}")).1
}

fuzz_target!(|bytes: &[u8]| READER.get_or_init(chosen)(bytes));
