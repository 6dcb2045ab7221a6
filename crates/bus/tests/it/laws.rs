//! What holds whoever publishes what, and whoever reads how.
//!
//! Random worlds of one bus and a few clients, each of which reads at its own pace, leaves and comes back.
//! A client checks every frame as it comes; at the end all of them catch up.

use std::{
    collections::BTreeSet,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use bus::{Bus, From, Limits, Subscribe, Subscription};
use proptest::prelude::*;
use wire::{
    event::{Frame, NewEvent},
    stream::{
        ClientEvicted, ReplayComplete, ResyncReason, SESSION_SNAPSHOT, SlowClientWarning,
        StateResyncRequired,
    },
};

use crate::rig::{EPOCH, NOW_MS, bus_with, frames, poll, raw};

const CLIENTS: usize = 3;

/// How a session stands: for each of its fields, the last event that changed it.
type Fields = [u64; 3];

fn change(fields: &mut Fields, id: u64) {
    fields[usize::try_from(id % 3).unwrap()] = id;
}

#[derive(Debug, Clone)]
enum Step {
    /// So many events with so many bytes of data, together or one by one.
    Publish {
        n: u64,
        data_bytes: usize,
        together: bool,
    },
    /// One chunk, and the reader goes away with it.
    Read(usize),
    /// All there is, and the reader waits.
    Drain(usize),
    /// Waits, if it comes to that, and gives it up.
    GiveUp(usize),
    /// Leaves and comes back behind what it has.
    Reconnect(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let client = 0..CLIENTS;
    prop_oneof![
        4 => (1..9u64, 2..400usize, any::<bool>()).prop_map(|(n, data_bytes, together)| {
            Step::Publish { n, data_bytes, together }
        }),
        3 => client.clone().prop_map(Step::Read),
        1 => client.clone().prop_map(Step::Drain),
        1 => client.clone().prop_map(Step::GiveUp),
        1 => client.prop_map(Step::Reconnect),
    ]
}

fn tight_limits() -> impl Strategy<Value = (Limits, usize)> {
    let limits = (
        1..40usize,
        200..8_000usize,
        100..6_000usize,
        200..4_000usize,
    );
    (limits, 1..12usize).prop_map(
        |((ring_events, ring_bytes, replay_bytes, queue_bytes), queue_frames)| {
            let limits = Limits {
                ring_events,
                ring_bytes,
                replay_bytes,
                queue_bytes,
                ..Limits::default()
            };
            (limits, queue_frames)
        },
    )
}

struct World {
    bus: Bus,
    session: Arc<Mutex<Fields>>,
    queue_frames: usize,
    clients: Vec<Client>,
}

/// A reader, and what it knows.
struct Client {
    stream: Option<Subscription>,
    /// The event that it has to be given next, unless it is told otherwise.
    next: u64,
    /// Whether the gap that it was told of may be larger than was said: a replay over its budget ends with
    /// what is live.
    may_skip: bool,
    seen: BTreeSet<u64>,
    /// Events that it was told are missing.
    missed: BTreeSet<u64>,
    /// `None` until a snapshot came, and from a gap until it subscribes anew.
    fields: Option<Fields>,
    is_evicted: bool,
    n_gaps: u64,
}

impl World {
    fn new(limits: Limits, queue_frames: usize) -> Self {
        let mut world = Self {
            bus: bus_with(limits),
            session: Arc::default(),
            queue_frames,
            clients: Vec::new(),
        };
        for _ in 0..CLIENTS {
            let mut client = Client::new();
            client.stream = Some(world.subscribe(0));
            world.clients.push(client);
        }
        world
    }

    fn subscribe(&self, after: u64) -> Subscription {
        let session = Arc::clone(&self.session);
        let snapshot = move || serde_json::to_string(&*session.lock().unwrap()).unwrap();
        self.bus
            .subscribe(Subscribe {
                from: From::After(after),
                epoch: Some(EPOCH.to_owned()),
                queue_frames: self.queue_frames,
                snapshot: Some(Box::new(snapshot)),
                now_ms: || NOW_MS,
            })
            .unwrap()
    }

    /// Changes the session and publishes that, under its lock.
    fn publish(&self, n: u64, data_bytes: usize, together: bool) {
        let data = raw(&format!("\"{}\"", "x".repeat(data_bytes)));
        let event = NewEvent {
            kind: "session_update",
            data: &data,
            prompt_id: None,
            originator: None,
            at_ms: 0,
        };
        let mut session = self.session.lock().unwrap();
        let mut batch = together.then(|| self.bus.batch());
        for _ in 0..n {
            let id = match &mut batch {
                Some(batch) => batch.publish(&event),
                None => self.bus.publish(&event),
            };
            change(&mut session, id.unwrap());
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Publish {
                n,
                data_bytes,
                together,
            } => self.publish(n, data_bytes, together),
            Step::Read(at) => {
                self.clients[at].read();
            }
            Step::Drain(at) => {
                self.clients[at].drain();
                self.clients[at].knows(&self.session.lock().unwrap());
            }
            Step::GiveUp(at) => self.clients[at].give_up(),
            Step::Reconnect(at) => self.reconnect(at),
        }
    }

    fn reconnect(&mut self, at: usize) {
        self.clients[at].stream = None;
        let stream = self.subscribe(self.clients[at].next - 1);
        let client = &mut self.clients[at];
        client.stream = Some(stream);
        client.is_evicted = false;
        client.may_skip = false;
        client.fields = None;
    }

    /// A last event, and all clients read to the end, coming back where they were given up.
    fn end(&mut self) {
        let data = raw("{}");
        let terminal = NewEvent {
            kind: "session_closed",
            data: &data,
            prompt_id: None,
            originator: None,
            at_ms: 0,
        };
        let last = {
            let mut session = self.session.lock().unwrap();
            let last = self.bus.close_with(&terminal).unwrap();
            change(&mut session, last);
            last
        };
        for at in 0..CLIENTS {
            while !self.clients[at].drain() || self.clients[at].is_evicted {
                assert!(self.clients[at].is_evicted, "a stream of a closed bus ends");
                self.reconnect(at);
            }
            self.clients[at].knows(&self.session.lock().unwrap());
            // A replay over its budget may be the end of the stream.
            self.clients[at].may_skip_to(last + 1);
        }
        for client in &self.clients {
            assert_eq!(client.next - 1, last, "the terminal event is the last");
            let all: BTreeSet<u64> = client.seen.union(&client.missed).copied().collect();
            assert!(
                all.into_iter().eq(1..=last),
                "an event is missing in silence"
            );
        }
        let n_gaps: u64 = self.clients.iter().map(|client| client.n_gaps).sum();
        assert!(self.bus.counts().resyncs >= n_gaps);
    }
}

impl Client {
    fn new() -> Self {
        Self {
            stream: None,
            next: 1,
            may_skip: false,
            seen: BTreeSet::new(),
            missed: BTreeSet::new(),
            fields: None,
            is_evicted: false,
            n_gaps: 0,
        }
    }

    /// Takes one chunk; whether there was one.
    fn read(&mut self) -> bool {
        let Some(Poll::Ready(Some(bytes))) = self.stream.as_mut().map(poll) else {
            return false;
        };
        frames(&bytes).iter().for_each(|frame| self.take(frame));
        true
    }

    /// Takes all chunks; whether the stream has ended.
    fn drain(&mut self) -> bool {
        while self.read() {}
        self.stream.as_mut().map(poll) == Some(Poll::Ready(None))
    }

    fn give_up(&mut self) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        let polled = pin!(stream.next()).poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(Some(bytes)) = polled {
            frames(&bytes).iter().for_each(|frame| self.take(frame));
        }
    }

    /// Holds each frame against what it has been given.
    fn take(&mut self, frame: &Frame) {
        assert!(!self.is_evicted, "client_evicted is the last frame");
        if let Some(id) = frame.id {
            return self.take_event(id);
        }
        assert_eq!(frame.meta.unwrap().server_timestamp, NOW_MS);
        let data = frame.data.get();
        match &frame.kind[..] {
            StateResyncRequired::KIND => self.take_resync(serde_json::from_str(data).unwrap()),
            ReplayComplete::KIND => {
                let complete: ReplayComplete = serde_json::from_str(data).unwrap();
                assert_eq!(complete.last_event_id, complete.last_replayed_event_id);
                assert_eq!(
                    complete.last_event_id.is_some(),
                    complete.replayed_count > 0
                );
            }
            SESSION_SNAPSHOT => self.fields = Some(serde_json::from_str(data).unwrap()),
            SlowClientWarning::KIND => {
                let warning: SlowClientWarning = serde_json::from_str(data).unwrap();
                assert!(self.may_skip || warning.last_event_id == self.next - 1);
            }
            ClientEvicted::KIND => {
                let evicted: ClientEvicted = serde_json::from_str(data).unwrap();
                self.may_skip_to(evicted.dropped_after + 1);
                assert_eq!(evicted.dropped_after, self.next - 1);
                self.is_evicted = true;
            }
            other => panic!("unknown kind {other}"),
        }
    }

    fn take_event(&mut self, id: u64) {
        self.may_skip_to(id);
        assert_eq!(id, self.next, "an event is left out or doubled");
        assert!(self.seen.insert(id));
        self.next = id + 1;
        if let Some(fields) = &mut self.fields {
            change(fields, id);
        }
    }

    fn take_resync(&mut self, resync: StateResyncRequired) {
        self.may_skip_to(resync.last_delivered_id + 1);
        assert_eq!(resync.last_delivered_id, self.next - 1);
        assert!(resync.earliest_available_id >= self.next);
        self.n_gaps += 1;
        self.may_skip = resync.reason == ResyncReason::ReplayBudgetExceeded;
        self.skip_to(resync.earliest_available_id);
        // What a client knew does not hold behind a gap, unless a snapshot is still to come.
        self.fields = None;
    }

    fn may_skip_to(&mut self, id: u64) {
        if std::mem::take(&mut self.may_skip) && id > self.next {
            self.skip_to(id);
        }
    }

    fn skip_to(&mut self, id: u64) {
        self.missed.extend(self.next..id);
        self.next = id;
    }

    /// A snapshot and what followed it say what all events say.
    fn knows(&self, session: &Fields) {
        if let Some(fields) = &self.fields
            && !self.is_evicted
        {
            assert_eq!(fields, session);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1_500, ..ProptestConfig::default() })]

    /// Nothing is left out in silence, nothing is doubled, snapshots and what follows say what all events
    /// say, and the terminal event is the last, however small the limits are.
    #[test]
    fn what_a_client_misses_it_is_told(
        (limits, queue_frames) in tight_limits(),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut world = World::new(limits, queue_frames);
        steps.iter().for_each(|step| world.take(step));
        world.end();
    }

    /// Whoever comes back with the last id that it was given has been given everything, where the ring is
    /// large enough, be it ever so slow.
    #[test]
    fn whoever_comes_back_misses_nothing(
        queue_frames in 1..12usize,
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut world = World::new(Limits::default(), queue_frames);
        steps.iter().for_each(|step| world.take(step));
        world.end();
        for client in &world.clients {
            prop_assert_eq!(client.missed.len(), 0);
            prop_assert_eq!(client.seen.len() as u64, world.bus.head());
        }
        prop_assert_eq!(world.bus.counts().resyncs, 0);
    }
}
