//! The subscribers that there are: how each keeps up, and how it is woken.

use std::task::Waker;

use crate::{pace::Pace, ring::Ring};

/// One subscriber, as the publisher sees it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) pace: Pace,
    /// Set while it waits for news that has not come.
    pub(crate) waker: Option<Waker>,
}

/// All subscribers. A number stays with one until it leaves.
#[derive(Debug, Default)]
pub(crate) struct Places {
    places: Vec<Option<Place>>,
    n_taken: usize,
}

impl Places {
    pub(crate) fn n_taken(&self) -> usize {
        self.n_taken
    }

    pub(crate) fn enter(&mut self, pace: Pace) -> usize {
        self.n_taken += 1;
        let place = Some(Place { pace, waker: None });
        if let Some(free) = self.places.iter().position(Option::is_none) {
            self.places[free] = place;
            return free;
        }
        self.places.push(place);
        self.places.len() - 1
    }

    /// The subscriber of this number, which has not left.
    pub(crate) fn get(&mut self, number: usize) -> &mut Place {
        self.places[number]
            .as_mut()
            .expect("a subscription has its place until it is dropped")
    }

    /// Frees a place. What is left of it is dropped by the caller, without the lock.
    pub(crate) fn leave(&mut self, number: usize) -> Option<Place> {
        let place = self.places[number].take();
        self.n_taken -= usize::from(place.is_some());
        if self.n_taken == 0 {
            self.places = Vec::new();
        }
        place
    }

    /// A batch has ended: judges those who are away. How many were evicted.
    pub(crate) fn batch_ended(&mut self, ring: &Ring) -> u64 {
        let places = self.places.iter_mut().flatten();
        places
            .map(|place| u64::from(place.pace.batch_ended(ring)))
            .sum()
    }

    /// Those who wait.
    pub(crate) fn take_wakers(&mut self) -> Wakers {
        let mut wakers = self.places.iter_mut().flatten();
        let mut wakers = wakers.by_ref().filter_map(|place| place.waker.take());
        Wakers {
            first: wakers.next(),
            more: wakers.collect(),
        }
    }
}

/// Subscribers to be woken, without the lock. One alone, which is the rule, takes no memory.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Wakers {
    first: Option<Waker>,
    more: Vec<Waker>,
}

impl Wakers {
    pub(crate) fn wake(self) {
        self.first
            .into_iter()
            .chain(self.more)
            .for_each(Waker::wake);
    }
}
