//! The fan-out of one session: a bounded replay ring and bounded subscribers.
//!
//! Events are rendered once, as server-sent events, into a shared log; a subscriber is a cursor into it.
//! What a subscriber is given is whole frames, in the order of their ids, with nothing left out in silence:
//! where something is missing it is told so by `state_resync_required`, where it was too slow by
//! `client_evicted`, and a terminal event is the last that it sees.
//!
//! This crate knows neither who publishes nor who listens.
//!
//! # Who is slow
//!
//! The log is shared, so a subscriber that lags costs nothing but the chunk that it is writing. It is judged
//! by one thing: what was published while it was away, that is since it was last given something and until
//! it asks for more.
//!
//! - Whoever waits in [`Subscription::next`] is not away. It is given all that comes, be it as much as the
//!   ring holds, however late it is scheduled.
//! - The first batch that comes while it is away is its due, whatever its size.
//! - With the next ones its queue is what came since it left. Where that is over a limit it is evicted; where
//!   it is near one, it is warned when it comes back.
//! - Once evicted it is given what fitted, as far as the ring still holds it, then `client_evicted`, then the
//!   end.
//! - Whatever the ring dropped before a subscriber came for it is told by `state_resync_required`.
//!
//! # Locks
//!
//! The bus has one lock and holds it for no call into foreign code: snapshots are read, and subscribers
//! woken, without it. So a publisher may hold a lock of its own while it publishes, and a snapshot may take
//! that same lock. A snapshot is to hold what the events up to its stream's cursor say: whoever changes the
//! session changes it before the event is published, or under the lock that the snapshot takes.

mod bus;
mod limits;
mod pace;
mod places;
mod reader;
mod render;
mod ring;
mod shared;
mod subscription;
mod sync;

pub use bus::{Batch, Bus, Counts};
pub use limits::Limits;
pub use render::own_frame;
pub use subscription::{From, Snapshot, Subscribe, SubscribeError, Subscription};

#[cfg(test)]
mod interleavings;
