//! Feeds one of gpuctl's readers with what libFuzzer thinks of: `GPUCTL_FUZZ` names it. It knows no
//! reader itself.
#![no_main]

use std::sync::OnceLock;

use gpuctl::fuzz::{FuzzTarget, TARGETS};
use libfuzzer_sys::fuzz_target;

static READER: OnceLock<FuzzTarget> = OnceLock::new();

fn chosen() -> FuzzTarget {
    let name = std::env::var("GPUCTL_FUZZ").unwrap_or_default();
    let known: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("GPUCTL_FUZZ is `{name}` and not one of {known:?}")).1
}

fuzz_target!(|bytes: &[u8]| READER.get_or_init(chosen)(bytes));
