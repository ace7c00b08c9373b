//! Prints log lines as they arrive, until the job ends. Returns an error unless the job completed,
//! so that the exit code reflects the job's result.

use std::cell::RefCell;
use std::process::ExitCode;

use tokio::sync::Notify;

use super::choice::PodFilter;
use super::{matches, no_container, print_lines};
use crate::cli::jobs::logs::Logs;
use crate::context::Context;
use crate::deploy::follow::unsuccessful_end;
use gpuctl_cluster::{Connection, LogEvent, LogLine, LogQuery, names_no_container};
use gpuctl_core::error::Error;
use gpuctl_core::model::Job;
use gpuctl_view::jobs::logs;
use gpuctl_view::jobs::logs::{JsonLine, PodLogLine, Prefix};
use gpuctl_view::{Format, json_line};

/// Maximum number of buffered bytes if lines arrive faster than they are written.
const MAX_BUFFER_BYTES: usize = 1 << 16;

/// Buffers lines that arrive together and writes them in one call, because a system call per line
/// costs more than the line.
struct LineBuffer<'a> {
    args: &'a Logs,
    context: &'a Context,
    container: &'a str,
    prefix: Prefix,
    unwritten: RefCell<String>,
    has_lines: Notify,
    /// Error of the first failed write.
    write_error: RefCell<Option<Error>>,
}

impl LineBuffer<'_> {
    fn add(&self, pod: String, rank: Option<u32>, line: LogLine) {
        let line = PodLogLine {
            pod,
            rank,
            container: self.container.to_owned(),
            at: line.at,
            text: line.text,
        };
        if !matches(self.args, &line.text) {
            return;
        }
        let text = if Format::from(self.args.output).is_document() {
            format!("{}\n", json_line(&JsonLine::from(&line)))
        } else {
            let look = self.context.terminal.style();
            logs::text(&line, self.prefix, look, self.args.raw)
        };
        self.unwritten.borrow_mut().push_str(&text);
        self.has_lines.notify_one();
        if self.unwritten.borrow().len() >= MAX_BUFFER_BYTES {
            self.write();
        }
    }

    fn write(&self) {
        let text = self.unwritten.take();
        if !text.is_empty()
            && let Err(error) = print_lines(self.args, &text, self.context)
        {
            self.write_error.borrow_mut().get_or_insert(error);
        }
    }

    /// Writes buffered lines whenever lines arrive. Never completes.
    async fn write_arriving(&self) -> ! {
        loop {
            self.has_lines.notified().await;
            self.write();
        }
    }
}

pub(super) async fn follow(
    args: &Logs,
    connection: &Connection,
    job: &Job,
    query: &LogQuery,
    context: &Context,
) -> Result<ExitCode, Error> {
    context.terminal.stream()?;
    let filter = PodFilter::new(args, job);
    let has_several = job.pods_wanted > 1 || job.kind.is_replicated();
    let buffer = LineBuffer {
        args,
        context,
        container: &query.container,
        prefix: Prefix {
            rank: has_several && filter == PodFilter::default(),
            timestamps: args.timestamps,
        },
        unwritten: RefCell::default(),
        has_lines: Notify::new(),
        write_error: RefCell::default(),
    };
    let sink = RefCell::new(|event: LogEvent| match event {
        LogEvent::Line { pod, rank, line } => buffer.add(pod, rank, line),
        // Notes go to stderr, so write earlier lines first.
        LogEvent::Note(text) => {
            buffer.write();
            context.terminal.note(&logs::remark(&text));
        }
    });
    let result = tokio::select! {
        result = connection.logs().follow(job, query, |pod| filter.matches(pod), &sink) => result,
        never = buffer.write_arriving() => never,
    };
    buffer.write();
    let state = result.map_err(|failure| {
        if names_no_container(&failure) {
            no_container(&query.container, job)
        } else {
            failure.into()
        }
    })?;
    if let Some(error) = buffer.write_error.take() {
        return Err(error);
    }
    if let Some(error) = unsuccessful_end(job, state.as_ref()) {
        return Err(error);
    }
    let final_state = state.filter(|state| state.status.is_final());
    context.terminal.note(&match final_state {
        Some(state) => logs::ending(&job.name, &state),
        None => logs::remark(&format!("{} was deleted", job.name)),
    });
    Ok(ExitCode::SUCCESS)
}
