//! Runs futures concurrently, up to a limit, and yields their results in order. Boxes the futures,
//! so that the compiler monomorphizes the stream once and not for every type of work.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;

use futures::future::{FutureExt, LocalBoxFuture};
use futures::stream::{self, Buffered, Iter, StreamExt};

/// Lazy iterator over boxed futures: thousands of jobs must not allocate all futures in advance.
type WorkPieces<'w> = Box<dyn Iterator<Item = LocalBoxFuture<'w, ()>> + 'w>;

/// Holds the result of one future after it completes.
type ResultSlot<T> = Rc<Cell<Option<T>>>;

/// A stream of results in the order of the input. The futures make progress only while a caller
/// awaits [`Self::next`], and a slow future delays the results after it.
pub(crate) struct OrderedConcurrent<'w, T> {
    running: Buffered<Iter<WorkPieces<'w>>>,
    /// One slot per started future whose result has not been returned yet.
    slots: Rc<RefCell<VecDeque<ResultSlot<T>>>>,
}

impl<'w, T: 'w> OrderedConcurrent<'w, T> {
    /// Runs at most `limit` futures at a time. A completed future occupies its place until its
    /// result is returned.
    pub(crate) fn new<F, W>(work: W, limit: usize) -> Self
    where
        F: Future<Output = T> + 'w,
        W: IntoIterator<Item = F>,
        W::IntoIter: 'w,
    {
        let slots: Rc<RefCell<VecDeque<ResultSlot<T>>>> = Rc::default();
        let pushed_slots = Rc::clone(&slots);
        let pieces = work.into_iter().map(move |piece| {
            let slot = ResultSlot::default();
            // `buffered` polls the iterator in order, so the slots are in the order of the results.
            pushed_slots.borrow_mut().push_back(Rc::clone(&slot));
            piece
                .map(move |result| slot.set(Some(result)))
                .boxed_local()
        });
        Self {
            running: stream::iter(Box::new(pieces) as WorkPieces<'w>).buffered(limit),
            slots,
        }
    }

    /// Waits for the next result. Returns `None` after the last one.
    pub(crate) async fn next(&mut self) -> Option<T> {
        self.running.next().await?;
        self.slots.borrow_mut().pop_front()?.take()
    }

    pub(crate) async fn all(mut self) -> Vec<T> {
        let mut results = Vec::new();
        while let Some(result) = self.next().await {
            results.push(result);
        }
        results
    }
}

impl<'w, T: 'w, E: 'w> OrderedConcurrent<'w, Result<T, E>> {
    /// Collects all results. Returns the first error in input order and drops the futures that are
    /// still running.
    pub(crate) async fn all_or_error(mut self) -> Result<Vec<T>, E> {
        let mut results = Vec::new();
        while let Some(result) = self.next().await {
            results.push(result?);
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn yields_results_in_order_and_limits_concurrency() {
        let (running, maximum) = (Cell::new(0), Cell::new(0));
        let work = |number: u32| {
            let (running, maximum) = (&running, &maximum);
            async move {
                running.set(running.get() + 1);
                maximum.set(maximum.get().max(running.get()));
                // The later a future starts, the sooner it completes.
                for _ in number..10 {
                    tokio::task::yield_now().await;
                }
                running.set(running.get() - 1);
                number
            }
        };
        let made = Cell::new(0);
        let pieces = (0..10).inspect(|_| made.set(made.get() + 1)).map(work);
        let mut concurrent = OrderedConcurrent::new(pieces, 3);
        assert_eq!(concurrent.next().await, Some(0));
        assert_eq!(made.get(), 3, "pieces are made when their turn comes");
        assert_eq!(concurrent.all().await, (1..10).collect::<Vec<_>>());
        assert_eq!(maximum.get(), 3);
        assert_eq!(
            OrderedConcurrent::new((0..0).map(work), 3).next().await,
            None
        );
    }

    #[tokio::test]
    async fn stops_at_the_first_error() {
        let started = Cell::new(0);
        let work = |number: u32| {
            let started = &started;
            async move {
                started.set(started.get() + 1);
                if number == 4 { Err(number) } else { Ok(number) }
            }
        };
        assert_eq!(
            OrderedConcurrent::new((0..100).map(work), 2)
                .all_or_error()
                .await,
            Err(4)
        );
        assert!(started.get() < 10, "{} were begun", started.get());
        assert_eq!(
            OrderedConcurrent::new((0..3).map(work), 2)
                .all_or_error()
                .await,
            Ok(vec![0, 1, 2])
        );
    }
}
