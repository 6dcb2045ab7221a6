//! Frames on their way to the writer, in the order of the calls that made them.
//!
//! Plain data without a lock or a task: [`super::shared`] guards it. A frame takes its place in the
//! order at once. Where there is no room, it waits in its place until what stands before it has made
//! some, and until then whoever sends it waits too and may take it back.

use std::collections::VecDeque;

use tokio::sync::oneshot;
use wire::limits::JSONRPC_WRITE_BYTES_MAX;

use crate::bounds::Bounds;

/// What a frame is, as far as it makes a difference here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Notification,
    /// The request of ours with this id.
    Request(u64),
    /// The answer to a request of the other side.
    Answer,
    /// It does not wait for room.
    Notice,
}

/// Its place in the order of all frames.
pub(crate) type Place = u64;

#[derive(Debug)]
struct Frame {
    place: Place,
    kind: Kind,
    bytes: Vec<u8>,
    /// `Some` until there is room.
    waiting: Option<oneshot::Sender<()>>,
}

/// Frames accepted and frames that wait.
#[derive(Debug)]
pub(crate) struct Outgoing {
    frames: VecDeque<Frame>,
    next_place: Place,
    /// Bytes accepted and not yet written, those in the writer's hands included. Notices count for
    /// themselves, or one that stands behind a frame could keep it waiting for ever.
    n_bytes: usize,
    /// Frames accepted and not yet written, in the same way.
    n_accepted: usize,
    /// Bytes of those that are in the writer's hands.
    n_bytes_taken: usize,
    /// How many those are.
    n_taken: usize,
    n_waiting: usize,
    n_notices: usize,
    n_answers: usize,
    bytes_max: usize,
    frames_max: usize,
}

impl Outgoing {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        Self {
            frames: VecDeque::new(),
            next_place: 0,
            n_bytes: 0,
            n_accepted: 0,
            n_bytes_taken: 0,
            n_taken: 0,
            n_waiting: 0,
            n_notices: 0,
            n_answers: 0,
            bytes_max: bounds.outgoing_bytes_max,
            frames_max: bounds.outgoing_frames_max,
        }
    }

    /// Notices that the writer has not taken.
    pub(crate) fn n_notices(&self) -> usize {
        self.n_notices
    }

    /// Answers that the writer has not taken.
    pub(crate) fn n_answers(&self) -> usize {
        self.n_answers
    }

    /// Whether all of it is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.n_taken == 0
    }

    /// Whether a frame of this length would be accepted now.
    pub(crate) fn has_room_for(&self, n_bytes: usize) -> bool {
        self.n_waiting == 0 && self.fits(n_bytes)
    }

    fn fits(&self, n_bytes: usize) -> bool {
        self.n_accepted == 0
            || (self.n_bytes + n_bytes <= self.bytes_max && self.n_accepted < self.frames_max)
    }

    /// Takes a frame in. `Some` where it waits for room, and is told of it.
    pub(crate) fn push(
        &mut self,
        kind: Kind,
        bytes: Vec<u8>,
    ) -> (Place, Option<oneshot::Receiver<()>>) {
        let (waiting, told) = if kind == Kind::Notice {
            self.n_notices += 1;
            (None, None)
        } else if self.has_room_for(bytes.len()) {
            self.n_bytes += bytes.len();
            self.n_accepted += 1;
            (None, None)
        } else {
            self.n_waiting += 1;
            let (tell, told) = oneshot::channel();
            (Some(tell), Some(told))
        };
        self.n_answers += usize::from(kind == Kind::Answer);
        let place = self.next_place;
        self.next_place += 1;
        self.frames.push_back(Frame {
            place,
            kind,
            bytes,
            waiting,
        });
        (place, told)
    }

    /// Takes back a frame that still waits. Answers stay: the other side waits for them.
    pub(crate) fn take_back(&mut self, place: Place) {
        let Ok(at) = self
            .frames
            .binary_search_by_key(&place, |frame| frame.place)
        else {
            return;
        };
        let frame = &self.frames[at];
        if frame.waiting.is_none() || frame.kind == Kind::Answer {
            return;
        }
        self.frames.remove(at);
        self.n_waiting -= 1;
        self.accept_waiting();
    }

    /// Moves accepted frames to the writer: as many as one write holds, and one at least if there is
    /// any.
    pub(crate) fn take(&mut self, batch: &mut Vec<Vec<u8>>) {
        let mut n_bytes = 0;
        while let Some(frame) = self.frames.front() {
            let is_full =
                !batch.is_empty() && n_bytes + frame.bytes.len() > JSONRPC_WRITE_BYTES_MAX;
            if frame.waiting.is_some() || is_full {
                return;
            }
            n_bytes += frame.bytes.len();
            if frame.kind == Kind::Notice {
                self.n_notices -= 1;
            } else {
                self.n_taken += 1;
                self.n_bytes_taken += frame.bytes.len();
            }
            self.n_answers -= usize::from(frame.kind == Kind::Answer);
            batch.extend(self.frames.pop_front().map(|frame| frame.bytes));
        }
    }

    /// What was taken is written, and leaves room.
    pub(crate) fn written(&mut self) {
        self.n_bytes -= std::mem::take(&mut self.n_bytes_taken);
        self.n_accepted -= std::mem::take(&mut self.n_taken);
        self.accept_waiting();
    }

    fn accept_waiting(&mut self) {
        if self.n_waiting == 0 {
            return;
        }
        for at in 0..self.frames.len() {
            if self.frames[at].waiting.is_none() {
                continue;
            }
            let n_bytes = self.frames[at].bytes.len();
            if !self.fits(n_bytes) {
                return;
            }
            self.n_waiting -= 1;
            self.n_bytes += n_bytes;
            self.n_accepted += 1;
            if let Some(tell) = self.frames[at].waiting.take() {
                // Dropped: whoever sent it does not wait any more, and it is sent all the same.
                _ = tell.send(());
            }
        }
    }

    /// Drops everything that the writer has not taken, and answers the requests among it. Those who
    /// wait for room find out by the loss of whoever would tell them.
    pub(crate) fn clear(&mut self) -> Vec<u64> {
        self.n_waiting = 0;
        self.n_notices = 0;
        self.n_answers = 0;
        let frames = self.frames.drain(..);
        frames
            .filter_map(|frame| match frame.kind {
                Kind::Request(id) => Some(id),
                Kind::Notification | Kind::Answer | Kind::Notice => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BYTES_MAX: usize = 100;
    const FRAMES_MAX: usize = 4;

    fn outgoing() -> Outgoing {
        Outgoing::new(&Bounds {
            outgoing_bytes_max: BYTES_MAX,
            outgoing_frames_max: FRAMES_MAX,
            ..Bounds::default()
        })
    }

    /// A frame of this length that says which it is.
    fn frame(number: u8, n_bytes: usize) -> Vec<u8> {
        vec![number; n_bytes]
    }

    fn take(outgoing: &mut Outgoing) -> Vec<u8> {
        let mut batch = Vec::new();
        outgoing.take(&mut batch);
        outgoing.written();
        batch.iter().map(|frame| frame[0]).collect()
    }

    #[test]
    fn a_frame_larger_than_the_queue_is_accepted_alone() {
        let mut outgoing = outgoing();
        let large = frame(1, BYTES_MAX + 1);
        assert!(outgoing.push(Kind::Notification, large.clone()).1.is_none());
        let (_, told) = outgoing.push(Kind::Notification, large);
        let mut told = told.unwrap();
        assert!(told.try_recv().is_err());
        assert_eq!(take(&mut outgoing), [1]);
        assert_eq!(told.try_recv(), Ok(()));
        assert_eq!(take(&mut outgoing), [1]);
    }

    #[test]
    fn room_is_made_by_what_is_written_and_not_by_what_is_taken() {
        let mut outgoing = outgoing();
        outgoing.push(Kind::Notification, frame(1, BYTES_MAX));
        let mut told = outgoing.push(Kind::Notification, frame(2, 1)).1.unwrap();
        let mut batch = Vec::new();
        outgoing.take(&mut batch);
        assert_eq!(batch.len(), 1);
        assert!(told.try_recv().is_err());
        outgoing.written();
        assert_eq!(told.try_recv(), Ok(()));
    }

    #[test]
    fn a_notice_waits_for_nobody_and_keeps_its_place() {
        let mut outgoing = outgoing();
        outgoing.push(Kind::Notification, frame(1, BYTES_MAX));
        let _first = outgoing.push(Kind::Notification, frame(2, 50));
        assert!(outgoing.push(Kind::Notice, frame(3, 60)).1.is_none());
        let _second = outgoing.push(Kind::Answer, frame(4, 1));
        let mut order = take(&mut outgoing);
        order.extend(take(&mut outgoing));
        assert_eq!(order, [1, 2, 3, 4]);
    }

    #[test]
    fn one_write_is_of_bounded_size() {
        let mut outgoing = Outgoing::new(&Bounds::default());
        for number in 0..3 {
            outgoing.push(
                Kind::Notification,
                frame(number, JSONRPC_WRITE_BYTES_MAX / 2),
            );
        }
        assert_eq!(take(&mut outgoing), [0, 1]);
        assert_eq!(take(&mut outgoing), [2]);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Push(Kind, usize),
        /// The oldest that still waits, or the one so many behind it.
        TakeBack(usize),
        Write,
    }

    fn step() -> impl Strategy<Value = Step> {
        let kind = prop_oneof![
            4 => Just(Kind::Notification),
            1 => Just(Kind::Request(1)),
            1 => Just(Kind::Answer),
            1 => Just(Kind::Notice),
        ];
        prop_oneof![
            4 => (kind, 1..60usize).prop_map(|(kind, n_bytes)| Step::Push(kind, n_bytes)),
            1 => (0..3usize).prop_map(Step::TakeBack),
            2 => Just(Step::Write),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Order, bounds, and that nothing but what was taken back is lost.
        #[test]
        fn frames_are_written_in_the_order_of_their_calls(
            steps in prop::collection::vec(step(), 0..60),
        ) {
            let mut outgoing = outgoing();
            let mut expected = Vec::new();
            let mut written = Vec::new();
            let mut waiting = Vec::new();
            for (number, step) in (0u8..).zip(steps) {
                match step {
                    Step::Push(kind, n_bytes) => {
                        expected.push(number);
                        let (place, told) = outgoing.push(kind, frame(number, n_bytes));
                        waiting.extend(told.map(|told| (number, kind, place, told)));
                    }
                    Step::TakeBack(at) if at < waiting.len() => {
                        let (number, kind, place, told) = waiting.remove(at);
                        outgoing.take_back(place);
                        drop(told);
                        if kind != Kind::Answer {
                            expected.retain(|other| *other != number);
                        }
                    }
                    Step::TakeBack(_) => {}
                    Step::Write => written.extend(take(&mut outgoing)),
                }
                // One who was told of room waits no more.
                waiting.retain_mut(|(.., told)| told.try_recv().is_err());
                let accepted = outgoing.frames.iter().filter(|frame| frame.waiting.is_none());
                let (notices, ordinary): (Vec<_>, Vec<_>) =
                    accepted.partition(|frame| frame.kind == Kind::Notice);
                let n_bytes: usize = ordinary.iter().map(|frame| frame.bytes.len()).sum();
                prop_assert!(n_bytes <= BYTES_MAX && ordinary.len() <= FRAMES_MAX);
                prop_assert_eq!(notices.len(), outgoing.n_notices());
                // Whoever waits does so for a reason.
                let first = outgoing.frames.iter().find(|frame| frame.waiting.is_some());
                prop_assert!(first.is_none_or(|first| !outgoing.fits(first.bytes.len())));
                prop_assert_eq!(outgoing.n_waiting == 0, first.is_none());
            }
            for _ in 0..expected.len() {
                written.extend(take(&mut outgoing));
            }
            prop_assert_eq!(written, expected);
            prop_assert_eq!((outgoing.n_bytes, outgoing.n_waiting), (0, 0));
            prop_assert_eq!((outgoing.n_notices(), outgoing.n_answers()), (0, 0));
        }
    }
}
