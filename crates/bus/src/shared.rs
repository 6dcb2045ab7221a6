//! What publishers and subscribers share, under one lock.

use std::sync::PoisonError;

use wire::event::NewEvent;

use crate::{
    bus::Counts,
    limits::Limits,
    places::{Places, Wakers},
    ring::Ring,
    sync::{Mutex, MutexGuard},
};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) epoch: String,
    pub(crate) limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) ring: Ring,
    pub(crate) places: Places,
    pub(crate) counts: Counts,
    pub(crate) is_closed: bool,
}

impl Shared {
    pub(crate) fn new(epoch: String, limits: Limits) -> Self {
        let state = State {
            ring: Ring::new(&limits),
            places: Places::default(),
            counts: Counts::default(),
            is_closed: false,
        };
        Self {
            epoch,
            limits,
            state: Mutex::new(state),
        }
    }

    /// The lock is held for no call into foreign code.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let wakers = state.places.take_wakers();
        drop(state);
        wakers.wake();
    }
}

impl State {
    pub(crate) fn publish(&mut self, event: &NewEvent<'_>) -> Option<u64> {
        (!self.is_closed).then(|| self.ring.push(event))
    }

    /// Something was published, and those who wait are to be told.
    pub(crate) fn batch_ended(&mut self) -> Wakers {
        self.counts.evictions += self.places.batch_ended(&self.ring);
        self.places.take_wakers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bus_of_an_idle_session_is_small() {
        assert!(size_of::<State>() <= 320, "{}", size_of::<State>());
    }
}
