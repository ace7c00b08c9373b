//! Parses the output of `verbose status` in NCCL's RAS subsystem, which the caller fetches. Finds
//! processes that do not respond, and ranks that have launched fewer operations than others.
//!
//! Source: NCCL user guide, troubleshooting, RAS, in the wording of versions 2.24 to 2.31. Unknown
//! lines are ignored.

use std::sync::LazyLock;

use regex::{Captures, Regex};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RasReport {
    /// NCCL version, such as `2.27.3`.
    pub version: String,
    /// Number of processes in the job, or `None` if the summary does not contain it.
    pub processes: Option<u64>,
    /// Processes that RAS declared dead after trying to reach them for a minute.
    pub dead: Vec<RasProcess>,
    /// Other processes that do not respond.
    pub missing: Vec<RasProcess>,
    /// Ranks without data, numbered in the first communicator with missing ranks.
    pub missing_ranks: Vec<u32>,
    /// Ranks that have launched fewer operations than others. During communication, a few ranks are
    /// always behind.
    pub behind: Vec<RankBehind>,
}

impl RasReport {
    /// Returns the number of processes that RAS cannot reach.
    pub fn unreached(&self) -> usize {
        self.dead.len() + self.missing.len()
    }

    /// Returns false if the queried process may itself be isolated.
    pub fn reaches_most(&self) -> bool {
        self.processes
            .is_none_or(|total| (self.unreached() as u64) * 2 < total)
    }
}

/// A process, as RAS describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RasProcess {
    pub process: u64,
    /// Address or host name of the node.
    pub node: String,
    /// Number of one device or of several, such as `5` or `0,1`.
    pub gpus: String,
}

/// A rank that has launched fewer operations than others in its communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankBehind {
    pub rank: u32,
    pub operations: u64,
    /// Highest number of operations that any rank in the communicator has launched.
    pub most: u64,
    /// Process of the rank, or `None` if RAS has no information about it.
    pub process: Option<RasProcess>,
}

/// Topic of the lines below a heading.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Section {
    Dead,
    Missing,
    Counts,
    #[default]
    Other,
}

/// Pattern for the end of a line about a rank. Captures no process for `[process information not
/// found]`.
const OF_RANK: &str = r" -- (?:GPUs? (?P<gpus>[\d,]+)(?: \(NVML [\d,]+\))? managed by process (?P<pid>\d+) on node (?P<node>\S+))?";

static LINES: LazyLock<[Regex; 4]> = LazyLock::new(|| {
    [
        r"^Process (?P<pid>\d+) on node (?P<node>\S+) managing GPUs? (?P<gpus>[\d,]+)(?: \(NVML [\d,]+\))?".to_owned(),
        format!(r"^Rank (?P<rank>\d+){OF_RANK}"),
        format!(r"^Rank (?P<rank>\d+) has (?:launched up to operation (?P<count>\d+)|not launched any operations){OF_RANK}"),
        r"^\d+ ranks have (?:launched up to operation (?P<count>\d+)|not launched any operations)".to_owned(),
    ]
    .map(|pattern| Regex::new(&pattern).expect("the patterns are tested"))
});

/// Parses a status text, or returns `None` if the text is not from RAS.
pub fn read(text: &str) -> Option<RasReport> {
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("NCCL version "))?
        .split_whitespace()
        .next()?;
    let mut reader = RasReader {
        report: RasReport {
            version: version.to_owned(),
            ..RasReport::default()
        },
        ..RasReader::default()
    };
    for line in text.lines() {
        reader.read_line(line);
    }
    // Complete the last communicator.
    reader.begin(Section::Other);
    let mut report = reader.report;
    // RAS may list a dead process as missing too.
    report
        .missing
        .retain(|process| !report.dead.contains(process));
    report.missing_ranks.sort_unstable();
    report.missing_ranks.dedup();
    Some(report)
}

/// State of the parser.
#[derive(Default)]
struct RasReader {
    report: RasReport,
    section: Section,
    /// Number of operations of the ranks on the following lines.
    count: u64,
    /// Highest number of operations of any rank in the communicator.
    most: u64,
    /// Ranks of the communicator, with their numbers of operations.
    counted: Vec<RankBehind>,
    /// True if the next line is the one below the heading of the totals.
    is_after_total: bool,
    /// Number of incomplete communicators so far.
    incomplete: u32,
}

impl RasReader {
    fn read_line(&mut self, line: &str) {
        let [process, ..] = &*LINES;
        let text = line.trim();
        // Columns below the heading: nodes, processes per node, GPUs per process, processes, GPUs.
        if std::mem::replace(&mut self.is_after_total, text.starts_with("(total)")) {
            self.report.processes = text
                .split_whitespace()
                .nth(3)
                .and_then(|number| number.parse().ok());
        }
        if !line.starts_with(' ') && !text.is_empty() {
            self.read_heading(text);
        } else if text.starts_with("Communicator ranks have different") {
            self.begin(if text.ends_with("operation counts") {
                Section::Counts
            } else {
                Section::Other
            });
        } else if let Some(captures) = process.captures(text) {
            self.add_process(&captures);
        } else if let Some(ranks) = text
            .strip_prefix("The missing rank")
            .filter(|_| self.incomplete == 1)
        {
            let ranks = ranks.trim_start_matches(['s', ':']).split([',', ' ']);
            self.report
                .missing_ranks
                .extend(ranks.filter_map(|rank| rank.parse::<u32>().ok()));
        } else {
            self.read_ranks(text);
        }
    }

    /// Starts a section. The previous communicator is complete, so its ranks can be compared now.
    fn begin(&mut self, section: Section) {
        let highest = self.most;
        self.report.behind.extend(
            self.counted
                .drain(..)
                .filter(|rank| rank.operations < highest)
                .map(|rank| RankBehind {
                    most: highest,
                    ..rank
                }),
        );
        (self.count, self.most) = (0, 0);
        self.section = section;
    }

    fn read_heading(&mut self, text: &str) {
        let is_incomplete = text.starts_with('#') && text.ends_with(" INCOMPLETE");
        self.incomplete += u32::from(is_incomplete);
        self.begin(match text {
            "DEAD" => Section::Dead,
            "INCOMPLETE" => Section::Missing,
            _ if is_incomplete => Section::Missing,
            _ => Section::Other,
        });
    }

    fn add_process(&mut self, captures: &Captures<'_>) {
        let list = match self.section {
            Section::Dead => &mut self.report.dead,
            Section::Missing => &mut self.report.missing,
            Section::Counts | Section::Other => return,
        };
        if let Some(process) = process_of(captures).filter(|process| !list.contains(process)) {
            list.push(process);
        }
    }

    /// Parses a line about one rank, or about several ranks with the same count.
    fn read_ranks(&mut self, text: &str) {
        let [_, rank, single_rank, several_ranks] = &*LINES;
        let is_count = self.section == Section::Counts;
        if let Some(captures) = single_rank.captures(text).filter(|_| is_count) {
            let operations = number(&captures, "count");
            self.most = self.most.max(operations);
            self.count_rank(&captures, operations);
        } else if let Some(captures) = several_ranks.captures(text).filter(|_| is_count) {
            self.count = number(&captures, "count");
            self.most = self.most.max(self.count);
        } else if let Some(captures) = rank.captures(text) {
            match self.section {
                Section::Counts => self.count_rank(&captures, self.count),
                // Ranks are numbered per communicator, so those of a second one would be ambiguous.
                Section::Missing if self.incomplete == 1 => {
                    self.report.missing_ranks.extend(rank_number(&captures));
                }
                _ => {}
            }
        }
    }

    fn count_rank(&mut self, captures: &Captures<'_>, operations: u64) {
        self.counted
            .extend(rank_number(captures).map(|rank| RankBehind {
                rank,
                operations,
                most: 0,
                process: process_of(captures),
            }));
    }
}

fn number(captures: &Captures<'_>, name: &str) -> u64 {
    captures
        .name(name)
        .and_then(|text| text.as_str().parse().ok())
        .unwrap_or(0)
}

fn rank_number(captures: &Captures<'_>) -> Option<u32> {
    captures.name("rank")?.as_str().parse().ok()
}

fn process_of(captures: &Captures<'_>) -> Option<RasProcess> {
    let text = |name| Some(captures.name(name)?.as_str().to_owned());
    Some(RasProcess {
        process: text("pid")?.parse().ok()?,
        node: text("node")?,
        gpus: text("gpus")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "NCCL version 2.27.3 compiled with CUDA 12.9\nCUDA runtime version 12090, driver version 12090\n\n";

    fn process(pid: u64, node: &str, gpus: &str) -> RasProcess {
        RasProcess {
            process: pid,
            node: node.to_owned(),
            gpus: gpus.to_owned(),
        }
    }

    /// As in the guide, one process was stopped and later declared dead.
    #[test]
    fn unresponsive_processes_are_listed() {
        let table = "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n    #  in group  per comm  per node  per \
                     comm  in group\n    0         1         4       7-8        32        32   RUNNING  INCOMPLETE\n\n";
        let communicator = "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n  The missing rank: 21\n\n";
        let tail = "Warnings\n========\n\nTIMEOUT\n  Encountered 2 communication timeouts while gathering communicator data\n";
        let listed = "  Process 3487984 on node 172.16.64.213 managing GPU 5\n\n";
        let stopped = format!(
            "{HEAD}{table}Errors\n======\n\nINCOMPLETE\n  Missing communicator data from 1 job process\n{listed}{communicator}{tail}"
        );
        let expected = RasReport {
            version: "2.27.3".to_owned(),
            missing: vec![process(3_487_984, "172.16.64.213", "5")],
            missing_ranks: vec![21],
            ..RasReport::default()
        };
        assert_eq!(read(&stopped), Some(expected.clone()));
        let dead = stopped.replace(
            "INCOMPLETE\n  Missing communicator data from 1 job process",
            "DEAD\n  1 job process is considered dead (unreachable via the RAS network)",
        );
        let given_up = RasReport {
            dead: expected.missing.clone(),
            missing: Vec::new(),
            ..expected.clone()
        };
        assert_eq!(read(&dead), Some(given_up.clone()));
        // A dead process may also be listed as missing. The NVML number of a device is not part of
        // its name.
        let both = dead.replace("managing GPU 5", "managing GPU 5 (NVML 3)").replace(
            "#0-0",
            "INCOMPLETE\n  Missing communicator data from 1 job process\n  Process 3487984 on node 172.16.64.213 managing GPU 5\n\n#0-0",
        );
        assert_eq!(read(&both), Some(given_up));
        let second =
            format!("{stopped}#1-0 (78db921d1c117b4a) INCOMPLETE\n  The missing ranks: 2, 5\n");
        assert_eq!(
            read(&second).unwrap().missing_ranks,
            [21],
            "the ranks of another communicator are others"
        );
        let summary = "Job summary\n===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n(total)   per node  per \
                       process    (total)  (total)\n      4        7-8            1         2       31\n\n";
        let cut_off = read(&stopped.replace("Errors\n", &format!("{summary}Errors\n"))).unwrap();
        assert_eq!(
            (cut_off.processes, cut_off.reaches_most()),
            (Some(2), false)
        );
        assert!(read(&stopped).unwrap().reaches_most());
        let verbose = stopped.replace(
            "  The missing rank: 21",
            "  Rank 7 -- GPU 3 managed by process 3748990 on node node1",
        );
        assert_eq!(read(&verbose).unwrap().missing_ranks, [7]);
    }

    /// A rank is behind only if another rank of its communicator has a higher count.
    #[test]
    fn ranks_behind_are_listed() {
        let text = format!(
            "{HEAD}Warnings\n========\n\n#0-0 (27a079b828ff1a75) MISMATCH\n  Communicator ranks have different collective operation counts\n  26 \
             ranks have launched up to operation 6650\n  2 ranks have launched up to operation 6649\n  Rank 0 -- GPU 0 managed by process \
             483072 on node 172.16.64.210\n  Rank 2 -- GPU 2 managed by process 483074 on node 172.16.64.210\n\n#1-0 (78db921d1c117b4a) \
             MISMATCH\n  Communicator ranks have different AllReduce operation counts\n  7 ranks have launched up to operation 64\n  Rank 7 \
             has launched up to operation 60 -- GPU 3 managed by process 1650386 on node node1\n"
        );
        let behind = read(&text).unwrap().behind;
        let rows: Vec<(u32, u64, u64, &str)> = behind
            .iter()
            .map(|rank| {
                (
                    rank.rank,
                    rank.operations,
                    rank.most,
                    rank.process.as_ref().unwrap().node.as_str(),
                )
            })
            .collect();
        assert_eq!(
            rows,
            [
                (0, 6649, 6650, "172.16.64.210"),
                (2, 6649, 6650, "172.16.64.210"),
                (7, 60, 64, "node1")
            ]
        );
        // A rank that is ahead of all others does not put the others behind.
        let ahead = text.replace("operation 60 --", "operation 70 --");
        assert_eq!(read(&ahead).unwrap().behind.len(), 2);
        // A rank counts even if its process is unknown.
        let lost = text.replace(
            "operation 60 -- GPU 3 managed by process 1650386 on node node1",
            "operation 60 -- [process information not found]",
        );
        assert_eq!(
            read(&lost).unwrap().behind[2],
            RankBehind {
                rank: 7,
                operations: 60,
                most: 64,
                process: None
            }
        );
    }

    #[test]
    fn other_text_is_not_a_ras_report() {
        assert_eq!(read(""), None);
        assert_eq!(read("HTTP/1.1 400 Bad Request\r\n\r\n"), None);
        let healthy = format!(
            "{HEAD}    0         8         4         1         4        32   RUNNING      OK\n"
        );
        assert_eq!(
            read(&healthy),
            Some(RasReport {
                version: "2.27.3".to_owned(),
                ..RasReport::default()
            })
        );
    }
}
