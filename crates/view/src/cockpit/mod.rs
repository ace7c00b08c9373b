//! State of `gpuctl top` on a terminal: lists of jobs, nodes, GPUs and queues, and the output of
//! other commands.
//!
//! The input is snapshots and key presses, and the output is screens and requests
//! ([`CockpitAction`]). The module does no I/O and reads no clock, so that tests can drive it.

mod cells;
mod columns;
mod draw;
mod heat;
mod keys;
mod lists;
mod pane;
mod past;
mod rows;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use draw::draw;
pub use lists::Tab;
pub use pane::Pane;
use snapshot::gpu_name;
pub use snapshot::{CockpitSnapshot, Curves, JobLine};

use crate::TextStyle;
use crate::workloads::top::TopOrder;
use lists::{Order, RowTarget, Scope};
use rows::{ListRequest, Row};

/// A request to the caller. The strings are arguments of gpuctl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CockpitAction {
    Quit,
    /// Run a command and show its output in the pane.
    Show(Vec<String>),
    /// Stop the command in the pane.
    Stop,
    /// Give the terminal to a command until the command ends.
    RunInTerminal(Vec<String>),
}

/// An earlier list that the user can return to.
#[derive(Clone, Debug)]
struct StepBack {
    tab: Tab,
    scope: Option<Scope>,
    filter: String,
}

pub struct Cockpit {
    /// Name of the kubeconfig context or the server.
    title: String,
    style: TextStyle,
    /// Whether gpuctl is in read-only mode, which forbids `exec`.
    is_read_only: bool,
    pub snapshot: CockpitSnapshot,
    pub curves: Curves,
    /// Error of the last refresh, if the snapshot is stale.
    pub trouble: Option<String>,
    pub pane: Option<Pane>,
    tab: Tab,
    scope: Option<Scope>,
    back: Vec<StepBack>,
    /// Key of the selected row in each list.
    selected: BTreeMap<Tab, String>,
    order: Order,
    filter: String,
    /// Whether the user is typing a filter.
    is_typing: bool,
    is_helping: bool,
    /// A message in the last line until the next key press.
    remark: Option<String>,
    /// Index of the first visible row, and the number of visible rows. They map mouse clicks to
    /// rows.
    viewport: (usize, usize),
    /// Screen row of the list's first row, below the column titles.
    list_row: u16,
    /// Width of the screen in columns.
    width: usize,
}

impl Cockpit {
    pub fn new(
        title: String,
        style: TextStyle,
        (tab, order): (Tab, TopOrder),
        is_read_only: bool,
        snapshot: CockpitSnapshot,
    ) -> Self {
        let mut curves = Curves::default();
        snapshot.record(&mut curves);
        Self {
            title,
            style,
            is_read_only,
            snapshot,
            curves,
            trouble: None,
            pane: None,
            tab,
            scope: None,
            back: Vec::new(),
            selected: BTreeMap::new(),
            order: order.into(),
            filter: String::new(),
            is_typing: false,
            is_helping: false,
            remark: None,
            viewport: (0, 0),
            list_row: 0,
            // Placeholder until the first draw sets the width.
            width: style.width.unwrap_or(80),
        }
    }

    /// Replaces the snapshot and updates the curves.
    pub fn update(&mut self, snapshot: CockpitSnapshot) {
        snapshot.record(&mut self.curves);
        self.snapshot = snapshot;
        self.trouble = None;
    }

    fn rows(&self) -> Vec<Row> {
        let request = ListRequest {
            tab: self.tab,
            scope: self.scope.as_ref(),
            filter: &self.filter,
            order: self.order,
        };
        rows::rows(request, &self.snapshot, &self.curves, self.style)
    }

    /// Returns the index of the selected row, or 0 if the row has disappeared.
    fn place(&self, rows: &[Row]) -> usize {
        let key = self.selected.get(&self.tab);
        key.and_then(|key| rows.iter().position(|row| row.key == *key))
            .unwrap_or(0)
    }

    fn select(&mut self, index: usize, rows: &[Row]) {
        if let Some(row) = rows.get(index.min(rows.len().saturating_sub(1))) {
            self.selected.insert(self.tab, row.key.clone());
        }
    }

    fn move_by(&mut self, offset: isize) {
        let rows = self.rows();
        let index = self.place(&rows).saturating_add_signed(offset);
        self.select(index, &rows);
    }

    fn show(&mut self, tab: Tab) {
        (self.tab, self.scope) = (tab, None);
        self.back.clear();
        self.filter.clear();
    }

    /// Opens a list with a scope. `step_back` returns to the current list.
    fn step(&mut self, tab: Tab, scope: Scope) {
        self.back.push(StepBack {
            tab: self.tab,
            scope: self.scope.take(),
            filter: std::mem::take(&mut self.filter),
        });
        (self.tab, self.scope) = (tab, Some(scope));
    }

    /// Returns to the previous list, or returns false if there is none.
    fn step_back(&mut self) -> bool {
        let Some(step) = self.back.pop() else {
            return false;
        };
        (self.tab, self.scope, self.filter) = (step.tab, step.scope, step.filter);
        true
    }

    /// Opens the selected row. A GPU type leads to its nodes, a node to its GPUs, a GPU to its job,
    /// and a job to its logs. A queue leads to the jobs of its namespace, or to its description if
    /// it has no namespace.
    fn enter(&mut self) -> Option<CockpitAction> {
        let rows = self.rows();
        let place = rows.get(self.place(&rows))?.place.clone();
        match place {
            RowTarget::GpuType(kind) => self.step(Tab::Nodes, Scope::GpuType(kind)),
            RowTarget::Node(name) => self.step(Tab::Gpus, Scope::Node(name)),
            RowTarget::Queue {
                namespace: Some(namespace),
                ..
            } => self.step(Tab::Jobs, Scope::Namespace(namespace)),
            RowTarget::Queue {
                namespace: None,
                name,
            } => return self.answer(&["describe", "queue", &name], false),
            RowTarget::Gpu { holder, .. } => {
                let job = holder.and_then(|(namespace, pod)| {
                    self.snapshot
                        .job_of(&namespace, &pod)
                        .map(JobLine::full_name)
                });
                match job {
                    Some(job) => self.step(Tab::Jobs, Scope::Job(job)),
                    None => self.remark = Some("free, or held by a pod you cannot see".to_owned()),
                }
            }
            RowTarget::Job { .. } => return self.run_for_job("logs"),
        }
        None
    }

    /// Runs the command that describes the selected row.
    fn describe(&mut self) -> Option<CockpitAction> {
        let rows = self.rows();
        let place = rows.get(self.place(&rows))?.place.clone();
        match place {
            RowTarget::Job {
                namespace,
                kind,
                name,
            } => self.answer(
                &[
                    "describe",
                    "workload",
                    "-n",
                    &namespace,
                    &format!("{namespace}/{kind}/{name}"),
                ],
                false,
            ),
            RowTarget::Node(name) | RowTarget::Gpu { node: name, .. } => {
                self.answer(&["describe", "node", &name], false)
            }
            RowTarget::Queue { namespace, name } => {
                let name = namespace
                    .map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"));
                self.answer(&["describe", "queue", &name], false)
            }
            // Nodes without a single GPU type share this row, but `--gpu-type` needs one type.
            RowTarget::GpuType(kind) if kind.is_empty() || kind.contains(',') => {
                self.remark =
                    Some("these nodes have no single GPU type; Enter lists them".to_owned());
                None
            }
            RowTarget::GpuType(kind) => self.answer(&["get", "nodes", "--gpu-type", &kind], false),
        }
    }

    /// Returns the selected job, or the job that holds the selected GPU.
    fn job(&self) -> Option<(String, String, String)> {
        let rows = self.rows();
        match rows.get(self.place(&rows))?.place.clone() {
            RowTarget::Job {
                namespace,
                kind,
                name,
            } => Some((namespace, kind, name)),
            RowTarget::Gpu {
                holder: Some((namespace, pod)),
                ..
            } => {
                let job = self.snapshot.job_of(&namespace, &pod)?;
                Some((namespace, job.kind.clone(), job.name.clone()))
            }
            _ => None,
        }
    }

    /// Runs a command for the selected job.
    fn run_for_job(&mut self, verb: &str) -> Option<CockpitAction> {
        let Some((namespace, kind, name)) = self.job() else {
            self.remark = Some(format!(
                "`{verb}` needs a job; Enter goes from a node to its GPUs and from a GPU to its job"
            ));
            return None;
        };
        let full = format!("{namespace}/{kind}/{name}");
        let is_ours = self
            .snapshot
            .jobs
            .iter()
            .find(|job| job.full_name() == full)
            .and_then(|job| job.is_ours);
        match verb {
            // `why` supports workloads that any tool created.
            "why" => self.answer(&["why", "-n", &namespace, &full], false),
            // If it is unknown whether gpuctl created the job, run the command and let it report
            // the error.
            _ if is_ours == Some(false) => {
                self.remark = Some(format!(
                    "`{verb}` only works with jobs that gpuctl created; `w` and `d` work with every workload"
                ));
                None
            }
            "logs" => self.answer(
                &["logs", "-n", &namespace, &name, "-f", "--tail", "500"],
                true,
            ),
            "exec" if self.is_read_only => {
                self.remark = Some("read-only mode: `exec` is refused".to_owned());
                None
            }
            "exec" => Some(CockpitAction::RunInTerminal(
                ["exec", "-n", &namespace, &name, "-it"]
                    .map(ToOwned::to_owned)
                    .to_vec(),
            )),
            _ => Some(CockpitAction::RunInTerminal(
                [verb, "-n", &namespace, &name]
                    .map(ToOwned::to_owned)
                    .to_vec(),
            )),
        }
    }

    /// Runs a gpuctl command in a new pane. With `follows`, the pane scrolls to new output.
    fn answer(&mut self, words: &[&str], follows: bool) -> Option<CockpitAction> {
        self.pane = Some(Pane::new(
            format!("gpuctl {}", words.join(" ")),
            self.width,
            follows,
        ));
        Some(CockpitAction::Show(
            words.iter().map(ToString::to_string).collect(),
        ))
    }
}
