//! The lock. Unit tests have one whose interleavings are chosen.

#[cfg(test)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard};
