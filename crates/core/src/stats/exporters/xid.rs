//! Meaning of NVIDIA's XID errors: who causes each one, and what NVIDIA recommends. Source: the XID
//! catalog of docs.nvidia.com/deploy/xid-errors (analyzing-xid-catalog, codes 1 to 172), without
//! the codes that it calls unused. The causes are those of the older table of the same document.

use std::fmt::Write as _;

use self::XidAction::{Check, Ignore, NvLink, Reboot, Reset, Restart, Support};
use self::XidSource::{Application, Driver, Hardware, Notice};

/// What an XID error points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XidSource {
    /// The device, its memory or its links.
    Hardware,
    /// The driver or the firmware of the device.
    Driver,
    /// The program. A driver or a device can also cause these errors, but rarely does.
    Application,
    /// The code reports a change and no error.
    Notice,
}

/// What NVIDIA recommends after an XID error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XidAction {
    Ignore,
    /// Restart the program.
    Restart,
    /// Reset the device before its next use.
    Reset,
    /// Restart the node.
    Reboot,
    /// Check the `NVLink` connections. Most subtypes require a reset.
    NvLink,
    /// Find out what the device needs before its next use.
    Check,
    /// Contact the vendor if the error repeats.
    Support,
}

/// An entry of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xid {
    /// First and last code with this meaning.
    codes: (u32, u32),
    pub source: XidSource,
    pub action: XidAction,
    pub meaning: &'static str,
}

impl Xid {
    /// Whether the device must be reset, repaired or checked before its next use.
    pub fn is_fatal(&self) -> bool {
        matches!(self.action, Reset | Reboot | NvLink | Check)
    }
}

impl XidAction {
    /// Returns a recommendation such as `restart the node`, or `None` if nothing is required.
    pub fn advice(self) -> Option<&'static str> {
        match self {
            Ignore => None,
            Restart => Some("restart the job"),
            Reset => Some("reset the GPU before its next use"),
            Reboot => Some("restart the node"),
            NvLink => Some("check the NVLink connections, and reset the GPU"),
            Check => Some("check the GPU before its next use: `nvidia-smi -q`"),
            Support => Some("contact the vendor if it repeats"),
        }
    }
}

const fn xid(code: u32, source: XidSource, action: XidAction, meaning: &'static str) -> Xid {
    xids(code, code, source, action, meaning)
}

const fn xids(
    first: u32,
    last: u32,
    source: XidSource,
    action: XidAction,
    meaning: &'static str,
) -> Xid {
    Xid {
        codes: (first, last),
        source,
        action,
        meaning,
    }
}

/// The catalog, ordered by code. The codes from 166 on have no action in the catalog: those that
/// report a failed device are checked like 48, which 171 and 172 specify.
const CATALOG: &[Xid] = &[
    xid(8, Application, Restart, "the GPU stopped processing"),
    xid(11, Application, Restart, "invalid or corrupted push buffer"),
    xid(13, Application, Restart, "graphics engine exception"),
    xid(25, Application, Restart, "invalid push buffer"),
    xid(31, Application, Restart, "GPU memory page fault"),
    xid(32, Application, Restart, "invalid or corrupted push buffer"),
    xids(37, 38, Driver, Ignore, "driver firmware error"),
    xids(39, 41, Driver, Restart, "copy engine exception"),
    xid(43, Application, Restart, "GPU stopped processing"),
    xid(
        44,
        Driver,
        Ignore,
        "graphics engine fault during context switch",
    ),
    xid(
        45,
        Application,
        Ignore,
        "cleanup after an earlier error or a killed process",
    ),
    xid(46, Driver, Reset, "the GPU stopped processing"),
    xid(48, Hardware, Check, "double-bit ECC error"),
    xid(54, Hardware, Check, "auxiliary power is not connected"),
    xid(60, Driver, Restart, "video processor exception"),
    xid(62, Hardware, Reset, "internal microcontroller halt"),
    xid(63, Notice, Ignore, "a row of memory was remapped"),
    xid(64, Hardware, Reset, "memory could not be remapped"),
    xids(66, 67, Driver, Ignore, "illegal access by the driver"),
    xid(68, Driver, Restart, "video decoder exception"),
    xid(69, Application, Restart, "graphics engine class error"),
    xids(70, 72, Driver, Restart, "copy engine error"),
    xid(74, Hardware, NvLink, "NVLink error"),
    xids(75, 77, Driver, Restart, "copy engine error"),
    xid(78, Driver, Support, "vGPU start error"),
    xid(79, Hardware, Reboot, "the GPU has fallen off the bus"),
    xid(80, Application, Restart, "corrupted data sent to the GPU"),
    xid(82, Driver, Restart, "JPEG decoder error"),
    xids(83, 84, Driver, Restart, "video decoder error"),
    xid(85, Driver, Restart, "copy engine error"),
    xid(86, Driver, Restart, "optical flow engine exception"),
    xids(88, 89, Driver, Restart, "video decoder error"),
    xid(92, Hardware, Support, "high rate of corrected ECC errors"),
    xid(93, Notice, Support, "the InfoROM was erased too often"),
    xid(94, Hardware, Restart, "contained memory error"),
    xid(95, Hardware, Reset, "uncontained memory error"),
    xids(96, 98, Driver, Restart, "video decoder error"),
    xids(99, 105, Driver, Restart, "JPEG decoder error"),
    xids(106, 107, Notice, Ignore, "test message"),
    xid(108, Application, Ignore, "NVLink address translation error"),
    xid(109, Driver, Reset, "context switch timeout"),
    xid(110, Driver, Reset, "security fault"),
    xid(119, Driver, Reset, "timeout of the GPU's firmware (GSP)"),
    xid(120, Driver, Reset, "error of the GPU's firmware (GSP)"),
    xid(
        121,
        Hardware,
        Support,
        "error of the link between CPU and GPU (C2C)",
    ),
    xids(126, 135, Driver, Restart, "copy engine error"),
    xid(136, Hardware, Reset, "link training failed"),
    xid(137, Application, Ignore, "NVLink privilege error"),
    xid(139, Driver, Restart, "optical flow engine exception"),
    xid(140, Hardware, Reset, "unrecovered ECC error"),
    xid(141, Driver, Support, "CUDA fast path error"),
    xid(142, Driver, Support, "video encoder error"),
    xid(143, Hardware, Reset, "GPU initialization error"),
    xid(144, Hardware, NvLink, "NVLink error (SAW)"),
    xid(145, Hardware, NvLink, "NVLink error (RLW)"),
    xid(146, Hardware, NvLink, "NVLink error (TLW)"),
    xid(147, Hardware, NvLink, "NVLink error (TREX)"),
    xid(148, Hardware, NvLink, "NVLink error (NVLPW_CTRL)"),
    xid(149, Hardware, NvLink, "NVLink error (NETIR)"),
    xid(150, Hardware, NvLink, "NVLink error (MSE)"),
    xid(151, Driver, Reboot, "key rotation error"),
    xid(152, Driver, Support, "DLA memory error"),
    xid(153, Driver, Support, "DLA timeout"),
    xid(
        154,
        Hardware,
        Check,
        "the recovery action that the GPU needs has changed",
    ),
    xid(155, Hardware, Reset, "NVLink error defined by software"),
    xid(156, Hardware, Reset, "a resource of the GPU was retired"),
    xid(
        157,
        Hardware,
        Support,
        "a resource of the GPU could not be retired",
    ),
    xid(158, Hardware, Reset, "fatal timeout of the GPU"),
    xid(159, Driver, Support, "CHI error without data"),
    xid(160, Notice, Ignore, "a memory channel was retired"),
    xid(
        161,
        Hardware,
        Support,
        "a memory channel could not be retired",
    ),
    xids(
        162,
        165,
        Notice,
        Ignore,
        "state of the power smoothing circuit",
    ),
    xid(
        166,
        Driver,
        Support,
        "NVLink traffic before its encryption was set up",
    ),
    xid(167, Hardware, Check, "fatal PCIe timeout"),
    xid(168, Hardware, Support, "reduced memory capacity"),
    xid(169, Hardware, Check, "internal microcontroller halt (SEC2)"),
    xid(
        170,
        Driver,
        Support,
        "NVLink interrupt in confidential computing mode",
    ),
    xid(
        171,
        Hardware,
        Check,
        "uncorrectable error in the device's memory (DRAM)",
    ),
    xid(
        172,
        Hardware,
        Check,
        "uncorrectable error in the device's caches (SRAM)",
    ),
];

/// Looks up a code. `None` if the catalog does not define it.
pub fn find(code: u32) -> Option<&'static Xid> {
    CATALOG
        .iter()
        .find(|xid| (xid.codes.0..=xid.codes.1).contains(&code))
}

/// Returns true if NVIDIA's catalog requires a reset, repair or check of the device after this
/// error. Excludes errors that a program alone causes, and unknown codes.
pub fn is_fatal(code: u32) -> bool {
    find(code).is_some_and(Xid::is_fatal)
}

/// Whether the error explains why a program on the device ended: the device failed, or the driver
/// stopped the program because of a memory error.
pub fn ends_programs(code: u32) -> bool {
    find(code).is_some_and(|xid| xid.is_fatal() || xid.source == Hardware && xid.action == Restart)
}

/// Formats a code with its meaning, such as `XID 79 (the GPU has fallen off the bus)`.
pub fn describe(code: u32) -> String {
    match find(code) {
        Some(xid) => format!("XID {code} ({})", xid.meaning),
        None => format!("XID {code}"),
    }
}

/// The fatal codes as ranges of consecutive codes.
fn fatal_ranges() -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for xid in CATALOG.iter().filter(|xid| xid.is_fatal()) {
        match ranges.last_mut() {
            Some(last) if last.1 + 1 == xid.codes.0 => last.1 = xid.codes.1,
            _ => ranges.push(xid.codes),
        }
    }
    ranges
}

/// The lowest fatal code.
pub(super) fn lowest_fatal() -> u32 {
    fatal_ranges().first().map_or(0, |range| range.0)
}

/// Limits a PromQL selector to series whose current value is a fatal code.
pub(super) fn fatal_filter(selector: &str) -> String {
    let conditions = fatal_ranges().into_iter().map(|(first, last)| {
        if first == last {
            format!("{selector} == {first}")
        } else {
            format!("{selector} >= {first} <= {last}")
        }
    });
    conditions.collect::<Vec<_>>().join(" or ")
}

/// Lists the fatal codes, such as `46,48,119-120`. Identifies recording rules for other codes.
pub(super) fn fatal_codes() -> String {
    let mut text = String::new();
    for (first, last) in fatal_ranges() {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{first}");
        if first != last {
            let _ = write!(text, "-{last}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalog_is_ordered_and_distinguishes_devices_from_programs() {
        assert!(
            CATALOG
                .windows(2)
                .all(|pair| pair[0].codes.1 < pair[1].codes.0)
        );
        for code in [
            48, 62, 64, 74, 79, 95, 119, 120, 136, 140, 143, 145, 149, 150, 154,
        ] {
            assert!(is_fatal(code) && ends_programs(code), "{code}");
        }
        for code in [8, 13, 31, 43, 45, 69, 80, 137] {
            assert_eq!(find(code).unwrap().source, Application, "{code}");
            assert!(!is_fatal(code) && !ends_programs(code), "{code}");
        }
        // A contained error ends the program, but the device can be used again.
        assert!(ends_programs(94) && !is_fatal(94));
        // Corrected errors and remapped rows end no program.
        assert!(!ends_programs(63) && !ends_programs(92) && !is_fatal(63));
        assert_eq!(find(9999), None);
        assert_eq!(describe(79), "XID 79 (the GPU has fallen off the bus)");
        assert_eq!(describe(9999), "XID 9999");
    }

    #[test]
    fn filter_covers_exactly_the_fatal_codes() {
        let filter = fatal_filter("x");
        assert!(filter.contains("x == 48 or"), "{filter}");
        assert!(filter.contains("x >= 143 <= 151"), "{filter}");
        promql_parser::parser::parse(&filter).unwrap();
        let covered = |code: u32| {
            fatal_ranges()
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&code))
        };
        assert!((0..300).all(|code| covered(code) == is_fatal(code)));
        assert!(
            fatal_codes().starts_with("46,48,54,62,64,74,79,95,109-110,119-120,136,140,143-151")
        );
    }
}
