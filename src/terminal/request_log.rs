//! Logs requests on stderr, for `-vv` and `GPUCTL_LOG`.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use gpuctl_core::error::Error;

/// Prefix of the targets that may be logged. Libraries also log headers and bodies, which contain
/// credentials.
const OWN: &str = "gpuctl";

/// Starts logging. A second call has no effect.
pub(crate) fn start(filter: Targets) {
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false);
    let _ = tracing_subscriber::registry()
        .with(lines)
        .with(filter)
        .try_init();
}

/// Returns the filter of `-vv`.
pub(crate) fn all() -> Targets {
    Targets::new().with_target(OWN, LevelFilter::DEBUG)
}

/// Parses `GPUCTL_LOG`: a level such as `debug`, or targets with levels such as
/// `gpuctl::prometheus=debug`.
pub(crate) fn filter(text: &str) -> Result<Targets, Error> {
    let refused = |message: String| {
        Error::usage(message)
            .hint("`GPUCTL_LOG=debug`, `GPUCTL_LOG=gpuctl::prometheus=debug` or `GPUCTL_LOG=off`")
    };
    if let Ok(level) = text.trim().parse::<LevelFilter>() {
        return Ok(Targets::new().with_target(OWN, level));
    }
    let parsed: Targets = text
        .parse()
        .map_err(|_| refused(format!("`GPUCTL_LOG={text}` is not a valid log filter")))?;
    let foreign = parsed
        .iter()
        .map(|(target, _)| target.to_owned())
        .find(|target| target != OWN && !target.starts_with("gpuctl::"));
    match (foreign, parsed.default_level()) {
        (Some(target), _) => Err(refused(format!(
            "`GPUCTL_LOG` names `{target}`, but gpuctl logs only its own targets"
        ))),
        // A level without a target would also apply to libraries, so restrict it to gpuctl's
        // targets.
        (None, Some(level)) if level != LevelFilter::OFF => {
            Ok(own_targets(&parsed).with_target(OWN, level))
        }
        (None, _) => Ok(own_targets(&parsed)),
    }
}

fn own_targets(parsed: &Targets) -> Targets {
    Targets::new().with_targets(parsed.iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn a_filter_never_enables_the_log_of_a_library() {
        for (text, kubernetes, prometheus) in [
            ("debug", true, true),
            ("off", false, false),
            ("gpuctl=debug", true, true),
            ("gpuctl::prometheus=debug", false, true),
            ("gpuctl::prometheus=debug,info", false, true),
        ] {
            let filter = filter(text).unwrap();
            let logs = |target: &str| filter.would_enable(target, &Level::DEBUG);
            let enabled = (logs("gpuctl::kubernetes"), logs("gpuctl::prometheus"));
            assert_eq!(enabled, (kubernetes, prometheus), "{text}");
            assert!(!filter.would_enable("hyper", &Level::ERROR), "{text}");
        }
    }

    #[test]
    fn a_filter_for_a_library_is_refused() {
        for text in ["hyper=trace", "gpuctl=loud", "gpuctl=debug,kube=debug"] {
            assert!(filter(text).is_err(), "{text}");
        }
    }
}
