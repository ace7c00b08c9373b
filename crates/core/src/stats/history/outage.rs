//! Finds the scrape nearest to a window by few questions, so that an outage of weeks costs a dozen
//! small requests instead of its samples.

const HOUR: i64 = 3600;

/// Seconds beyond a window to search for a scrape. Longer outages are not bridged.
const BEYOND: [i64; 6] = [
    900,
    HOUR,
    6 * HOUR,
    24 * HOUR,
    7 * 24 * HOUR,
    31 * 24 * HOUR,
];

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
}
