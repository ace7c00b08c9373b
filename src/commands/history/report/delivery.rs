//! Sends a report to webhooks, chats, mail servers and files. Without `--execute`, prints what it
//! would send, and only writes files.

use std::path::Path;

use anyhow::anyhow;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::cli::history::report::{Report, ReportFormat};
use crate::config::ReportSettings;
use crate::context::Context;
use crate::outbound::chat::Robot;
use crate::outbound::destination::ReportDestination;
use crate::outbound::mail::{MailCredentials, MailRoute, OutboundMail};
use crate::outbound::{Caller, OutboundUrl, RetryPolicy};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::values::text::count;
use gpuctl_local::files;
use gpuctl_view::history::report::GpuHourReport;
use gpuctl_view::history::report_message::message;
use gpuctl_view::history::report_page::ReportPage;

/// Maximum length of the text in a mail, in bytes.
const MAIL_LENGTH: usize = 1 << 20;

/// A receiver, and whether it comes from the configuration, whose credentials then apply.
struct ReportReceiver {
    destination: ReportDestination,
    is_configured: bool,
}

/// The receivers of a report.
pub(super) struct Delivery {
    receivers: Vec<ReportReceiver>,
    settings: ReportSettings,
    execute: bool,
    format: ReportFormat,
}

/// A report in the form in which it is sent.
struct ReportFile {
    name: String,
    text: String,
}

impl ReportFormat {
    /// The ending of a file, and the media type.
    fn file_type(self) -> (&'static str, &'static str) {
        match self {
            Self::Table | Self::Name => ("txt", "text/plain"),
            Self::Json => ("json", "application/json"),
            Self::Yaml => ("yaml", "application/yaml"),
            Self::Csv => ("csv", "text/csv"),
            Self::Markdown => ("md", "text/markdown"),
            Self::Html => ("html", "text/html"),
        }
    }
}

impl Delivery {
    /// Parses the receivers, before anything is read. `None` without `--send`.
    pub(super) fn plan(args: &Report, context: &Context) -> Result<Option<Self>, Error> {
        if args.send.is_empty() {
            return Ok(None);
        }
        let settings = ReportSettings::read(&context.config()?).map_err(Error::usage)?;
        let receiver = |text: &String| {
            let is_configured = text.is_empty();
            let text = match is_configured {
                true => settings.receiver.as_ref().ok_or_else(|| {
                    Error::usage("no receiver is configured").hint(
                        "use --send WHERE, or set `report.send` in the config file or \
                         GPUCTL_REPORT_SEND",
                    )
                })?,
                false => text,
            };
            let destination = ReportDestination::parse(text).map_err(Error::usage)?;
            Ok::<_, Error>(ReportReceiver {
                destination,
                is_configured,
            })
        };
        let receivers = args
            .send
            .iter()
            .map(receiver)
            .collect::<Result<Vec<_>, _>>()?;
        let is_remote =
            |receiver: &ReportReceiver| !matches!(receiver.destination, ReportDestination::File(_));
        if context.access.bundle.is_some() && receivers.iter().any(is_remote) {
            let error = Error::usage("the report of a bundle is old, so it is not sent");
            return Err(error.hint("use --send with a file"));
        }
        Ok(Some(Self {
            receivers,
            settings,
            execute: args.execute,
            format: args.output,
        }))
    }

    /// Sends the report to all receivers, even if some of them fail.
    pub(super) async fn deliver(
        &self,
        report: &GpuHourReport<'_>,
        facts: &ReportPage,
        text: String,
        context: &Context,
    ) -> Result<(), Error> {
        let file = ReportFile {
            name: file_name(report, facts, self.format),
            text,
        };
        let (mut failures, mut pending) = (Vec::new(), 0);
        for receiver in &self.receivers {
            let shown = receiver.destination.shown();
            let result = match &receiver.destination {
                ReportDestination::File(path) => write(path, &file),
                _ if !self.execute => {
                    pending += 1;
                    let text = message(report, facts, MAIL_LENGTH);
                    context.terminal.report(&format!(
                        "would send {} ({} bytes) to {shown}, with the text:\n{text}",
                        file.name,
                        file.text.len()
                    ));
                    continue;
                }
                ReportDestination::Webhook(url) => {
                    self.post(receiver, url, &file, (report, facts), context)
                        .await
                }
                ReportDestination::Mail(route) => {
                    self.mail(receiver, route, &file, (report, facts)).await
                }
            };
            match result {
                Ok(()) => context
                    .terminal
                    .note(&format!("sent {} to {shown}", file.name)),
                Err(error) => failures.push(format!("{shown}: {error}")),
            }
        }
        if pending > 0 {
            context.terminal.print(&file.text)?;
            context.terminal.warn(&format!(
                "nothing was sent: use --execute to send the report to {}",
                count(pending, "receiver")
            ));
        }
        if failures.is_empty() {
            return Ok(());
        }
        let error = Error::new(ErrorName::NotifyFailed, "the report was not sent");
        Err(failures.into_iter().fold(error, Error::cause))
    }

    /// Posts to a chat in its format, and to other services as JSON that contains the report.
    async fn post(
        &self,
        receiver: &ReportReceiver,
        url: &OutboundUrl,
        file: &ReportFile,
        (report, facts): (&GpuHourReport<'_>, &ReportPage),
        context: &Context,
    ) -> anyhow::Result<()> {
        let robot = Robot::from_setting("auto", url);
        let text = message(report, facts, robot.max_length());
        let secret = self.settings.chat_secret.as_deref();
        let payload = payload(report, facts, file, self.format);
        let now = context.now().as_millisecond();
        let mut call = robot.call(url, secret, now, &text, payload);
        if receiver.is_configured {
            call.headers.clone_from(&self.settings.headers);
        }
        let retry_policy = RetryPolicy {
            timeout: self.settings.timeout,
            retries: 2,
            repeatable: false,
        };
        let response = Caller::new()?.post(&call, retry_policy).await?;
        robot.check_accepted(url, &response)
    }

    async fn mail(
        &self,
        receiver: &ReportReceiver,
        route: &MailRoute,
        file: &ReportFile,
        (report, facts): (&GpuHourReport<'_>, &ReportPage),
    ) -> anyhow::Result<()> {
        let settings = &self.settings.mail;
        if settings.is_of_file && settings.password.is_some() && !receiver.is_configured {
            return Err(anyhow!(
                "the password in the config file is sent only to the mail server in \
                 `report.send`; use --send without a value, or GPUCTL_SMTP_PASSWORD"
            ));
        }
        let mail = OutboundMail {
            subject: format!("{}, {}", facts.title(report), facts.window(report)),
            text: message(report, facts, MAIL_LENGTH),
            file_name: file.name.clone(),
            media: self.format.file_type().1,
            attachment: file.text.clone(),
        };
        let credentials = MailCredentials {
            user: settings.user.as_deref(),
            password: settings.password.as_deref(),
            authority: settings.authority.as_deref(),
        };
        route.send(mail, credentials, self.settings.timeout).await
    }
}

/// The JSON for services that are not chats. The text of the message is added to it.
fn payload(
    report: &GpuHourReport<'_>,
    facts: &ReportPage,
    file: &ReportFile,
    format: ReportFormat,
) -> Value {
    json!({
        "text": "",
        "title": facts.title(report),
        "cluster": facts.cluster,
        "from": report.from,
        "to": report.to,
        "file_name": file.name,
        "media_type": format.file_type().1,
        "report": file.text,
    })
}

/// Names the file after the cluster and the last day of the window.
fn file_name(report: &GpuHourReport<'_>, facts: &ReportPage, format: ReportFormat) -> String {
    let safe = |c: char| match c {
        c if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') => c,
        _ => '-',
    };
    let cluster: String = facts.cluster.chars().map(safe).collect();
    let day = report.to.to_zoned(TimeZone::system()).date();
    format!("gpu-report-{cluster}-{day}.{}", format.file_type().0)
}

/// Writes the report to a file, or into a folder under its own name.
fn write(path: &Path, file: &ReportFile) -> anyhow::Result<()> {
    let path = match path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        true => path.join(&file.name),
        false => path.to_owned(),
    };
    Ok(files::replace(
        &path,
        file.text.as_bytes(),
        files::Purpose::Document,
    )?)
}
