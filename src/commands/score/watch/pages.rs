//! Renders the latest scores as HTTP pages and Prometheus metrics.

use jiff::Timestamp;
use serde_json::json;

use super::{MAX_AGE_INTERVALS, ScoreWatch, WatchState};
use crate::serve::HttpPage;
use gpuctl_core::stats::score::selection::Scored;
use gpuctl_view::json;
use gpuctl_view::program::health::HealthStatus;
use gpuctl_view::score::exposition;
use gpuctl_view::score::list as view;

fn json_page(code: u16, text: String) -> HttpPage {
    HttpPage {
        code,
        media: "application/json",
        text: text.into(),
        is_always_served: false,
    }
}

impl ScoreWatch<'_> {
    /// Returns true if the last results are recent enough to display.
    fn is_fresh(&self, state: &WatchState) -> bool {
        let max_age = self
            .settings
            .borrow()
            .interval
            .saturating_mul(MAX_AGE_INTERVALS);
        state
            .succeeded
            .is_some_and(|time| time.elapsed() <= max_age)
    }

    pub(super) fn exposition(&self) -> String {
        let state = self.state.borrow();
        let last = state.last.as_ref().filter(|_| self.is_fresh(&state));
        let stats = last.map(|last| gpuctl_view::score::summary::stats(&last.devices));
        let scores = last
            .zip(stats.as_ref())
            .map(|(last, stats)| (&last.devices[..], stats));
        let settings = self.settings.borrow();
        exposition::text(scores, &state.analyses, settings.cluster.as_deref())
    }

    fn health(&self) -> HealthStatus {
        let (state, settings) = (self.state.borrow(), self.settings.borrow());
        let limit = settings
            .interval
            .saturating_mul(MAX_AGE_INTERVALS)
            .saturating_add(self.context.access.request_timeout);
        let is_late = state.ended.is_some_and(|time| time.elapsed() > limit);
        HealthStatus {
            status: match (is_late, state.connected && self.is_fresh(&state)) {
                (true, _) => "unhealthy",
                (false, false) => "degraded",
                (false, true) => "healthy",
            },
            prometheus_connected: state.connected,
            last_analysis: state.last.as_ref().map(|last| last.at),
            analysis_timeout: is_late,
            ai_enabled: settings.ai.is_some(),
            interval: settings.interval.as_secs(),
        }
    }

    /// Updates all pages from the current state.
    pub(super) fn refresh(&self) {
        let health = self.health();
        let code = if health.analysis_timeout { 503 } else { 200 };
        let state = self.state.borrow();
        let last = state.last.as_ref().filter(|_| self.is_fresh(&state));
        let no_analysis = || {
            let error = json!({
                "error": "NoAnalysis",
                "message": "no recent analysis",
                "last_analysis": health.last_analysis,
            });
            json_page(503, json(&error))
        };
        let page_of = |text: &dyn Fn(&[Scored], Timestamp) -> String| {
            last.map_or_else(no_analysis, |last| {
                json_page(200, text(&last.devices, last.at))
            })
        };
        let threshold = last.map_or(0.0, |last| last.rules.thresholds.low);
        let metrics = HttpPage {
            media: "text/plain; version=0.0.4; charset=utf-8",
            ..json_page(200, self.exposition())
        };
        let mut pages = self.pages.borrow_mut();
        pages.insert("/metrics", metrics);
        // The kubelet restarts a pod if `/health`, its liveness probe, does not respond.
        pages.insert(
            "/health",
            HttpPage {
                is_always_served: true,
                ..json_page(code, json(&health))
            },
        );
        pages.insert(
            "/results",
            page_of(&|rows, time| json(&view::results(rows, time))),
        );
        pages.insert(
            "/results/low",
            page_of(&|rows, time| json(&view::low(rows, threshold, time))),
        );
        pages.insert(
            "/results/stats",
            page_of(&|rows, _| json(&gpuctl_view::score::summary::stats(rows))),
        );
    }
}
