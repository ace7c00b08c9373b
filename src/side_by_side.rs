//! Does pieces of work side by side, up to a number of them at once, and gives their results in order. It does not know what the
//! work is: all kinds of it share one queue, which keeps the program small.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;

use futures::future::LocalBoxFuture;
use futures::stream::{self, Buffered, Iter, StreamExt};

/// Work that is done as far as `next` is awaited.
pub(crate) struct SideBySide<'w, T> {
    running: Buffered<Iter<std::vec::IntoIter<LocalBoxFuture<'w, ()>>>>,
    results: VecDeque<Rc<Cell<Option<T>>>>,
}

impl<'w, T: 'w> SideBySide<'w, T> {
    /// Begins with the first `at_once` pieces; each that ends lets another begin, unless earlier ones are still to be taken.
    pub(crate) fn new<F: Future<Output = T> + 'w>(work: impl IntoIterator<Item = F>, at_once: usize) -> Self {
        let mut results = VecDeque::new();
        let noted = work.into_iter().map(|work| {
            let result = Rc::new(Cell::new(None));
            results.push_back(Rc::clone(&result));
            Box::pin(async move { result.set(Some(work.await)) }) as LocalBoxFuture<'w, ()>
        });
        let work: Vec<_> = noted.collect();
        Self { running: stream::iter(work).buffered(at_once), results }
    }

    /// Returns the result of the next piece in their order; `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<T> {
        self.running.next().await?;
        self.results.pop_front()?.take()
    }

    /// Returns all results.
    pub(crate) async fn all(mut self) -> Vec<T> {
        let mut all = Vec::with_capacity(self.results.len());
        while let Some(result) = self.next().await {
            all.push(result);
        }
        all
    }
}

impl<'w, T: 'w, E: 'w> SideBySide<'w, Result<T, E>> {
    /// Returns all results, or the first error in their order; work that is not done then is dropped.
    pub(crate) async fn all_or_error(mut self) -> Result<Vec<T>, E> {
        let mut all = Vec::with_capacity(self.results.len());
        while let Some(result) = self.next().await {
            all.push(result?);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn results_come_in_order_and_no_more_than_so_many_are_done_at_once() {
        let (running, most) = (Cell::new(0), Cell::new(0));
        let work = |number: u32| {
            let (running, most) = (&running, &most);
            async move {
                running.set(running.get() + 1);
                most.set(most.get().max(running.get()));
                // Later pieces end sooner.
                for _ in number..10 {
                    tokio::task::yield_now().await;
                }
                running.set(running.get() - 1);
                number
            }
        };
        assert_eq!(SideBySide::new((0..10).map(work), 3).all().await, (0..10).collect::<Vec<_>>());
        assert_eq!(most.get(), 3);
        assert_eq!(SideBySide::new((0..0).map(work), 3).next().await, None);
    }

    #[tokio::test]
    async fn an_error_ends_what_would_come_after_it() {
        let begun = Cell::new(0);
        let work = |number: u32| {
            let begun = &begun;
            async move {
                begun.set(begun.get() + 1);
                if number == 4 { Err(number) } else { Ok(number) }
            }
        };
        assert_eq!(SideBySide::new((0..100).map(work), 2).all_or_error().await, Err(4));
        assert!(begun.get() < 10, "{} were begun", begun.get());
        assert_eq!(SideBySide::new((0..3).map(work), 2).all_or_error().await, Ok(vec![0, 1, 2]));
    }
}
