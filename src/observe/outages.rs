//! Outages of kube-state-metrics whose edges are known, so that the hours of one outage search for
//! them once.

use gpuctl_core::model::UnixSeconds;

/// A time without samples of kube-state-metrics.
#[derive(Clone, Copy)]
pub(super) struct Outage {
    /// A range without samples.
    pub(super) empty: (UnixSeconds, UnixSeconds),
    /// A time shortly before the last scrape before the range.
    pub(super) from: Option<UnixSeconds>,
    /// A time shortly after the first scrape after the range.
    pub(super) to: Option<UnixSeconds>,
}

impl Outage {
    /// Whether a range lies between the edges of the outage. An outage without an edge covers no
    /// more than the range whose edges were searched.
    pub(super) fn covers(&self, (start, end): (UnixSeconds, UnixSeconds)) -> bool {
        self.from.unwrap_or(self.empty.0) <= start && end <= self.to.unwrap_or(self.empty.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_hours_of_an_outage_use_its_edges() {
        let hour = |number: i64| (UnixSeconds(number * 3600), UnixSeconds((number + 1) * 3600));
        let outage = |from, to| Outage {
            empty: hour(40),
            from,
            to,
        };
        // From hour 20 to hour 92.
        let closed = outage(Some(hour(20).0), Some(hour(92).0));
        assert!(closed.covers(hour(20)) && closed.covers(hour(91)));
        assert!(!closed.covers(hour(19)) && !closed.covers(hour(92)));
        // Without an edge, only the hours after the one that was searched are known.
        let open = outage(None, Some(hour(92).0));
        assert!(!open.covers(hour(39)) && open.covers(hour(41)));
        assert!(!outage(None, None).covers(hour(41)));
    }
}
