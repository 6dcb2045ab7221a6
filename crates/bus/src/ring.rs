//! The shared log: the last events, rendered, and where each of them lies.
//!
//! Plain data without a lock. A place in the log is an offset, in bytes since the bus began. Events are
//! appended to a block; what a reader asks for is cut off the block without being copied. A block that is
//! full becomes one piece again, of its exact size, so that old events lie in few large pieces. The ring
//! forgets event by event, and gives memory back piece by piece.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use wire::{
    event::NewEvent,
    limits::{BUS_BLOCK_BYTES_MAX, BUS_BLOCK_BYTES_MIN},
};

use crate::{limits::Limits, render};

/// The last events of a session.
#[derive(Debug)]
pub(crate) struct Ring {
    events_max: usize,
    bytes_max: u64,
    /// The last id that was given.
    head: u64,
    /// Where the first event begins.
    start: u64,
    /// Where each event ends.
    ends: VecDeque<u64>,
    /// What was cut off, one behind the other.
    pieces: VecDeque<Piece>,
    /// How many of them, from the last on, belong to the block that is being filled.
    n_open: usize,
    /// The end of that block, which nobody has asked for yet.
    tail: BytesMut,
}

/// Whole events, one behind the other.
#[derive(Debug)]
struct Piece {
    start: u64,
    bytes: Bytes,
}

impl Piece {
    fn end(&self) -> u64 {
        self.start + len(&self.bytes)
    }
}

/// What a reader is given.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Whole events.
    pub(crate) bytes: Bytes,
    /// The last of them.
    pub(crate) last_id: u64,
}

impl Ring {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            events_max: limits.ring_events,
            bytes_max: limits.ring_bytes.try_into().unwrap_or(u64::MAX),
            head: 0,
            start: 0,
            ends: VecDeque::new(),
            pieces: VecDeque::new(),
            n_open: 0,
            tail: BytesMut::new(),
        }
    }

    /// The last id that was given; 0 before the first.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// The id of the first event that is held; the next one where none is.
    pub(crate) fn first(&self) -> u64 {
        self.head + 1 - self.ends.len() as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Where the last event ends.
    pub(crate) fn end(&self) -> u64 {
        self.ends.back().copied().unwrap_or(self.start)
    }

    /// Where this event ends; the start of the ring for those before it, its end for those to come.
    pub(crate) fn end_of(&self, id: u64) -> u64 {
        let Some(at) = id.checked_sub(self.first()) else {
            return self.start;
        };
        let end = usize::try_from(at).ok().and_then(|at| self.ends.get(at));
        end.copied().unwrap_or_else(|| self.end())
    }

    /// The last event that ends here or before; the one before the first where none does.
    pub(crate) fn id_at(&self, offset: u64) -> u64 {
        if offset >= self.end() {
            return self.head;
        }
        self.first() - 1 + self.ends.partition_point(|end| *end <= offset) as u64
    }

    /// Uses up ids without events, and forgets what it holds.
    pub(crate) fn seed(&mut self, n: u64) {
        self.start = self.end();
        self.head += n;
        self.ends = VecDeque::new();
        self.pieces = VecDeque::new();
        self.n_open = 0;
        self.tail = BytesMut::new();
    }

    /// Appends an event and forgets those that it leaves no room for.
    pub(crate) fn push(&mut self, event: &NewEvent<'_>) -> u64 {
        let n_expected = render::bytes_expected(event);
        if self.tail.capacity() - self.tail.len() < n_expected {
            self.begin_block(n_expected);
        }
        let end = self.end();
        let n_before = self.tail.len();
        self.head += 1;
        render::event(&mut self.tail, self.head, event);
        self.ends
            .push_back(end + (self.tail.len() - n_before) as u64);
        while self.is_over() {
            self.forget_first();
        }
        self.head
    }

    /// Whoever waits for the newest event gets it whatever its size.
    fn is_over(&self) -> bool {
        let is_over = self.ends.len() > self.events_max || self.end() - self.start > self.bytes_max;
        is_over && self.ends.len() > 1
    }

    fn forget_first(&mut self) {
        let Some(start) = self.ends.pop_front() else {
            return;
        };
        self.start = start;
        while self
            .pieces
            .front()
            .is_some_and(|piece| piece.end() <= start)
        {
            self.pieces.pop_front();
        }
        self.n_open = self.n_open.min(self.pieces.len());
    }

    /// Ends the block and begins another with room for so many bytes. Blocks grow with what is held; what
    /// nobody has asked for moves on to the larger one, so that what is ready stays one piece.
    fn begin_block(&mut self, n_bytes: usize) {
        let n_kept = usize::try_from(self.end() - self.start).unwrap_or(BUS_BLOCK_BYTES_MAX);
        let n_block = n_kept
            .saturating_add(n_bytes)
            .min(BUS_BLOCK_BYTES_MAX)
            .next_power_of_two()
            .max(BUS_BLOCK_BYTES_MIN);
        let mut n_spare = self.tail.capacity() - self.tail.len();
        let mut moved = BytesMut::with_capacity(n_block.max(n_bytes));
        if self.tail.len() + n_bytes <= n_block {
            n_spare = self.tail.capacity();
            moved.extend_from_slice(&self.tail);
        } else {
            self.seal();
        }
        let from = self.pieces.len() - self.n_open;
        let n_held: usize = self.pieces.range(from..).map(|at| at.bytes.len()).sum();
        // A block that is cut in pieces, or has much room left, is copied to the size of what it holds.
        if self.n_open > 1 || n_spare > n_held / 4 {
            self.join_from(from);
        }
        self.n_open = 0;
        self.tail = moved;
    }

    fn join_from(&mut self, from: usize) {
        let Some(start) = self.pieces.get(from).map(|piece| piece.start) else {
            return;
        };
        let joined = join(self.pieces.range(from..).map(|piece| &piece.bytes[..]));
        self.pieces.truncate(from);
        self.pieces.push_back(Piece {
            start,
            bytes: joined,
        });
    }

    /// Cuts off what has been appended.
    fn seal(&mut self) {
        if self.tail.is_empty() {
            return;
        }
        let start = self.end() - self.tail.len() as u64;
        let bytes = self.tail.split().freeze();
        self.pieces.push_back(Piece { start, bytes });
        self.n_open += 1;
    }

    /// Events from behind one, which the ring has to hold, up to another: all of them, or as many as one
    /// chunk holds.
    pub(crate) fn take(&mut self, after: u64, last: u64) -> Option<Chunk> {
        let (from, to) = (self.end_of(after), self.end_of(last));
        if from >= to {
            return None;
        }
        if to > self.end() - self.tail.len() as u64 {
            self.seal();
        }
        let at = self.piece_at(from)?;
        let bytes = self.pieces[at].slice(from, to);
        let end = from + len(&bytes);
        let bytes = if end < to && bytes.len() < BUS_BLOCK_BYTES_MAX / 4 {
            self.joined(at, from, to)
        } else {
            bytes
        };
        let end = from + len(&bytes);
        let last_id = if end == to {
            last.min(self.head)
        } else {
            self.id_at(end)
        };
        Some(Chunk { bytes, last_id })
    }

    /// The piece that holds the byte at this offset.
    fn piece_at(&self, offset: u64) -> Option<usize> {
        let last = self.pieces.len().checked_sub(1)?;
        if self.pieces[last].start <= offset {
            return Some(last);
        }
        self.pieces
            .partition_point(|piece| piece.start <= offset)
            .checked_sub(1)
    }

    /// Small pieces as one chunk: to write a chunk costs more than to copy it.
    fn joined(&self, at: usize, from: u64, to: u64) -> Bytes {
        let mut n_bytes = 0;
        let slices = self.pieces.range(at..).map(|piece| piece.slice(from, to));
        let slices: Vec<Bytes> = slices
            .take_while(|slice| {
                n_bytes += slice.len();
                !slice.is_empty() && n_bytes <= BUS_BLOCK_BYTES_MAX
            })
            .collect();
        join(slices.iter().map(|slice| &slice[..]))
    }
}

impl Piece {
    /// What lies between two offsets.
    fn slice(&self, from: u64, to: u64) -> Bytes {
        let within = |offset: u64| {
            let at = offset.saturating_sub(self.start).min(len(&self.bytes));
            usize::try_from(at).unwrap_or(self.bytes.len())
        };
        self.bytes.slice(within(from)..within(to))
    }
}

fn len(bytes: &[u8]) -> u64 {
    bytes.len() as u64
}

fn join<'a>(parts: impl Iterator<Item = &'a [u8]> + Clone) -> Bytes {
    let mut joined = Vec::with_capacity(parts.clone().map(<[u8]>::len).sum());
    parts.for_each(|part| joined.extend_from_slice(part));
    joined.into()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn push(ring: &mut Ring, data_bytes: usize) -> u64 {
        let data = format!("\"{}\"", "x".repeat(data_bytes - 2));
        let data = RawValue::from_string(data).unwrap();
        ring.push(&NewEvent {
            kind: "session_update",
            data: &data,
            prompt_id: None,
            originator: None,
            at_ms: 0,
        })
    }

    /// Bytes of memory that events take: whole blocks where they were not copied.
    fn bytes_held(ring: &Ring) -> usize {
        let pieces: usize = ring.pieces.iter().map(|piece| piece.bytes.len()).sum();
        pieces + ring.tail.capacity()
    }

    fn ring(ring_events: usize, ring_bytes: usize) -> Ring {
        Ring::new(&Limits {
            ring_events,
            ring_bytes,
            ..Limits::default()
        })
    }

    #[test]
    fn an_empty_ring_takes_no_memory_and_a_short_one_little() {
        let mut ring = ring(8_000, 8 << 20);
        assert_eq!((bytes_held(&ring), ring.ends.capacity()), (0, 0));
        for _ in 0..8 {
            push(&mut ring, 100);
        }
        assert!(bytes_held(&ring) <= 4 << 10, "{}", bytes_held(&ring));
    }

    #[test]
    fn memory_is_bounded_by_the_ring_and_given_back() {
        let (ring_bytes, spare) = (1 << 20, BUS_BLOCK_BYTES_MAX * 2);
        for data_bytes in [20, 250, 5_000, 40_000, 100_000] {
            for is_read in [false, true] {
                let mut ring = ring(100_000, ring_bytes);
                for _ in 0..(4 << 20) / data_bytes {
                    let id = push(&mut ring, data_bytes);
                    if is_read {
                        assert!(ring.take(id - 1, id).is_some());
                    }
                    assert!(bytes_held(&ring) <= ring_bytes + data_bytes * 2 + spare);
                }
                assert!(ring.end() - ring.start <= ring_bytes as u64);
                let n_pieces = BUS_BLOCK_BYTES_MAX / 100 + ring_bytes / BUS_BLOCK_BYTES_MAX * 4;
                assert!(ring.pieces.len() <= n_pieces, "{}", ring.pieces.len());
            }
        }
    }

    #[test]
    fn the_newest_event_stays_whatever_its_size() {
        let mut ring = ring(100, 1_000);
        push(&mut ring, 100);
        push(&mut ring, 5_000);
        assert_eq!((ring.first(), ring.head()), (2, 2));
        let chunk = ring.take(1, 2).unwrap();
        assert!(chunk.bytes.len() > 5_000);
        push(&mut ring, 100);
        assert_eq!((ring.first(), ring.head()), (3, 3));
        assert!(ring.end() - ring.start < 1_000);
    }

    #[test]
    fn nothing_that_left_the_ring_is_held_by_it() {
        let mut ring = ring(10, 8 << 20);
        let id = push(&mut ring, 100_000);
        let chunk = ring.take(id - 1, id).unwrap();
        assert!(!chunk.bytes.is_unique());
        for _ in 0..10 {
            push(&mut ring, 100);
        }
        assert!(chunk.bytes.is_unique());
    }

    #[test]
    fn small_pieces_are_given_as_one_chunk() {
        let mut ring = ring(8_000, 8 << 20);
        for _ in 0..1_000 {
            let id = push(&mut ring, 100);
            assert!(ring.take(id - 1, id).is_some());
        }
        let (mut after, mut n_chunks) = (0, 0);
        while let Some(chunk) = ring.take(after, ring.head()) {
            assert!(chunk.bytes.len() <= BUS_BLOCK_BYTES_MAX);
            assert!(
                chunk
                    .bytes
                    .starts_with(format!("id: {}\n", after + 1).as_bytes())
            );
            assert!(chunk.bytes.ends_with(b"\n\n"));
            (after, n_chunks) = (chunk.last_id, n_chunks + 1);
        }
        assert_eq!(after, 1_000);
        assert!(n_chunks <= 10, "{n_chunks}");
    }
}
