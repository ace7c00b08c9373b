//! Finds the scrape nearest to a window by few questions, so that an outage of weeks costs a dozen
//! small requests instead of its samples. The hours of one outage share the result.

use crate::model::UnixSeconds;

const HOUR: i64 = 3600;

/// Seconds beyond a window to search for a scrape.
const BEYOND: [i64; 6] = [900, HOUR, 6 * HOUR, 24 * HOUR, 7 * 24 * HOUR, LONGEST];

/// Seconds of the longest outage that is bridged.
const LONGEST: i64 = 31 * 24 * HOUR;

/// Seconds to read beyond the nearest scrape, so that its samples show their interval.
const MARGIN: i64 = 900;

/// A search on one side of a window. The caller asks for each distance of [`Self::probe`] whether
/// there is a scrape within it, and passes the response to [`Self::note`].
#[derive(Clone, Copy, Debug)]
pub struct NearestScrape {
    /// Longest distance in seconds without a scrape.
    empty: i64,
    /// Shortest distance in seconds with a scrape.
    full: Option<i64>,
    /// Longest distance to look at, in seconds.
    limit: i64,
    has_failed: bool,
}

impl NearestScrape {
    /// Starts a search within `limit` seconds.
    pub fn new(limit: i64) -> Self {
        Self {
            empty: 0,
            full: None,
            limit,
            has_failed: false,
        }
    }

    /// Returns the next distance in seconds to ask for, or `None` if the search has ended.
    pub fn probe(&self) -> Option<i64> {
        match self.full {
            _ if self.has_failed => None,
            Some(full) => (full - self.empty > HOUR).then_some(i64::midpoint(self.empty, full)),
            None => BEYOND
                .into_iter()
                .find(|distance| *distance > self.empty)
                .map(|distance| distance.min(self.limit))
                .filter(|distance| *distance > self.empty),
        }
    }

    /// Notes whether there is a scrape within a distance that [`Self::probe`] returned. `None`
    /// means that the store did not answer, which ends the search: taken for a missing scrape, it
    /// would lead to longer and more expensive distances.
    pub fn note(&mut self, distance: i64, has_scrape: Option<bool>) {
        match has_scrape {
            Some(true) => self.full = Some(distance),
            Some(false) => self.empty = distance,
            None => self.has_failed = true,
        }
    }

    /// Returns true if the store did not answer, so that a scrape may have been missed.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Returns true if the search reached its limit without a scrape.
    pub fn is_silent_to_limit(&self) -> bool {
        self.full.is_none() && self.empty >= self.limit
    }

    /// Returns how many seconds beyond the window to read, or `None` if no scrape was found.
    pub fn distance(&self) -> Option<i64> {
        let full = self.full.filter(|_| !self.has_failed)?;
        Some(if full <= HOUR {
            full
        } else {
            (full + MARGIN).min(self.limit)
        })
    }
}

/// A time shortly before the last scrape before a range, and one shortly after the first scrape
/// after it. Each is `None` if no scrape was found.
pub type OutageEdges = (Option<UnixSeconds>, Option<UnixSeconds>);

/// Returns the edges that the searches before and after a range found.
pub fn nearest_edges(
    (start, end): (UnixSeconds, UnixSeconds),
    before: &NearestScrape,
    after: &NearestScrape,
) -> OutageEdges {
    (
        before.distance().map(|distance| start - distance),
        after.distance().map(|distance| end + distance),
    )
}

/// A time without samples of kube-state-metrics, with the results of the searches for its ends.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    /// A range without samples in this time is part of the outage.
    covered: (UnixSeconds, UnixSeconds),
    edges: OutageEdges,
    has_failed: bool,
}

impl Outage {
    /// Creates the outage around an empty range from searches before and after it.
    pub fn new(
        (start, end): (UnixSeconds, UnixSeconds),
        before: &NearestScrape,
        after: &NearestScrape,
    ) -> Self {
        let edges = nearest_edges((start, end), before, after);
        // An outage that lasts until now, or began before the first sample, has no scrape on one
        // side. It is known there as far as the search looked.
        let covered = (
            edges.0.unwrap_or(start - before.empty),
            edges.1.unwrap_or(end + after.empty),
        );
        // The searches from an hour in the middle reach both ends of a longer outage, and those
        // from other hours reach one end. All hours of the outage must count the same.
        let empty = before.empty + (end - start) + after.empty;
        let edges = if empty > LONGEST { (None, None) } else { edges };
        Self {
            covered,
            edges,
            has_failed: before.has_failed() || after.has_failed(),
        }
    }

    /// Returns true if a range without samples is part of the outage.
    pub fn covers(&self, (start, end): (UnixSeconds, UnixSeconds)) -> bool {
        self.covered.0 <= start && end <= self.covered.1
    }

    /// Returns true if the store did not answer a search, so that the edges may be wrong.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Returns the edges of the time that hours of the outage read. An outage of more than 31 days
    /// has none, and is not bridged.
    pub fn edges(&self) -> OutageEdges {
        self.edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches for a scrape at a distance. Returns the result and the number of questions.
    fn search(scrape: i64, limit: i64) -> (Option<i64>, usize) {
        let (mut search, mut questions) = (NearestScrape::new(limit), 0);
        while let Some(distance) = search.probe() {
            search.note(distance, Some(scrape <= distance));
            questions += 1;
        }
        (search.distance(), questions)
    }

    #[test]
    fn nearest_scrape_is_found_in_few_questions() {
        let all = i64::MAX;
        // The first two distances are short enough to read them completely.
        assert_eq!(search(30, all), (Some(900), 1));
        assert_eq!(search(3000, all), (Some(HOUR), 2));
        for hours in [2, 5, 23, 25, 72, 167, 200, 743] {
            let scrape = hours * HOUR - 600;
            let (distance, questions) = search(scrape, all);
            let distance = distance.unwrap();
            // At least the scrape and the margin, and at most an hour more.
            assert!(
                (scrape..=scrape + HOUR + MARGIN).contains(&distance),
                "{hours}: {distance}"
            );
            // Six distances, and 24 days are halved to an hour in log₂ 576 < 10 steps.
            assert!(questions <= 16, "{hours}: {questions}");
        }
        assert_eq!(search(32 * 24 * HOUR, all), (None, 6));
    }

    #[test]
    fn search_ends_at_its_limit() {
        assert_eq!(search(500, 600), (Some(600), 1));
        assert_eq!(search(700, 600), (None, 1));
        assert_eq!(search(8 * HOUR - 60, 8 * HOUR), (Some(8 * HOUR), 5));
        assert_eq!(search(30, 0), (None, 0));
        let mut silent = NearestScrape::new(600);
        assert!(!silent.is_silent_to_limit());
        silent.note(600, Some(false));
        assert!(silent.is_silent_to_limit());
    }

    #[test]
    fn search_ends_if_the_store_does_not_answer() {
        // The store answers for `answered` distances, and has a scrape after 20 days.
        let search = |answered: usize| {
            let (mut search, mut questions) = (NearestScrape::new(i64::MAX), 0);
            while let Some(distance) = search.probe() {
                let is_answered = questions < answered;
                let has_scrape = distance >= 20 * 24 * HOUR;
                search.note(distance, is_answered.then_some(has_scrape));
                questions += 1;
            }
            (search.distance(), search.has_failed(), questions)
        };
        assert_eq!(search(0), (None, true, 1));
        assert_eq!(search(4), (None, true, 5));
        // A failure in the middle leaves a range of weeks that is too long to read.
        assert_eq!(search(6), (None, true, 7));
        assert!(matches!(search(20), (Some(_), false, _)));
    }

    fn hour(number: i64) -> (UnixSeconds, UnixSeconds) {
        (UnixSeconds(number * HOUR), UnixSeconds((number + 1) * HOUR))
    }

    /// Searches on both sides of an hour for scrapes in an hour before it and in one after it.
    fn outage(number: i64, first: Option<i64>, next: Option<i64>, now: i64) -> Outage {
        let searched = |limit: i64, scrape: Option<i64>| {
            let mut search = NearestScrape::new(limit * HOUR);
            while let Some(distance) = search.probe() {
                let has_scrape = scrape.is_some_and(|scrape| scrape * HOUR <= distance);
                search.note(distance, Some(has_scrape));
            }
            search
        };
        let before = searched(number, first.map(|first| number - first));
        let after = searched(now - number - 1, next.map(|next| next - number));
        Outage::new(hour(number), &before, &after)
    }

    #[test]
    fn all_hours_of_an_outage_share_one_search() {
        let closed = outage(40, Some(20), Some(92), 200);
        assert!(closed.covers(hour(20)) && closed.covers(hour(91)));
        assert!(!closed.covers(hour(18)) && !closed.covers(hour(95)));
        assert!(matches!(closed.edges(), (Some(_), Some(_))));
    }

    #[test]
    fn hours_of_an_outage_until_now_share_one_search() {
        // From hour 3020 until now.
        let open = outage(3021, Some(3020), None, 3100);
        assert!(open.covers(hour(3021)) && open.covers(hour(3099)));
        assert!(matches!(open.edges(), (Some(_), None)));
        // The first sample is in hour 3050. The search looked 31 days back.
        let young = outage(3040, None, Some(3050), 3100);
        assert_eq!(young.edges(), (None, None));
        assert!(young.covers(hour(3039)) && young.covers(hour(3040 - 31 * 24)));
        assert!(!young.covers(hour(3039 - 31 * 24)));
        // Searches that the store did not answer know nothing beyond the range.
        let mut failed = NearestScrape::new(i64::MAX);
        failed.note(900, None);
        let unknown = Outage::new(hour(40), &failed, &failed);
        assert!(unknown.covers(hour(40)) && !unknown.covers(hour(41)));
        assert!(unknown.has_failed() && !young.has_failed());
    }

    #[test]
    fn all_hours_of_an_outage_are_bridged_or_none() {
        let first = 2000;
        let bridged = |days: i64, now: i64| {
            let next = first + days * 24;
            let hours = (first + 1..next).map(|number| {
                let edges = outage(number, Some(first), Some(next), now).edges();
                matches!(edges, (Some(_), Some(_)))
            });
            let hours: Vec<bool> = hours.collect();
            let is_same = hours.iter().all(|is_bridged| *is_bridged == hours[0]);
            assert!(is_same, "{days}: {hours:?}");
            hours[0]
        };
        for days in [1, 8, 30] {
            assert!(bridged(days, 9000), "{days}");
        }
        for days in [32, 40, 61, 63] {
            assert!(!bridged(days, 9000), "{days}");
        }
        // An outage until now has one edge, unless it is longer than 31 days.
        let edges = |number: i64, now: i64| outage(number, Some(first), None, now).edges();
        for number in [first + 1, first + 300, first + 719] {
            assert!(
                matches!(edges(number, first + 720), (Some(_), None)),
                "{number}"
            );
            assert_eq!(edges(number, first + 800), (None, None), "{number}");
        }
    }
}
