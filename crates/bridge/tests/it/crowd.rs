//! Many clients at once, on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use bridge::{Bridge, Error, TurnQuery};
use wire::http::{NewSession, Restore, Vote};

use crate::rig::{Stream, bridge, nobody, options, said, stream_of, thread};

const SESSIONS: usize = 8;
const CLIENTS: usize = 3;
const ROUNDS: usize = 30;

/// Whatever clients do at the same time: streams have every id once and in order, the last event is last,
/// and nobody waits for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crowd_is_served_in_order() {
    let (bridge, mut launches) = bridge(options());
    let child = tokio::spawn(async move { launches.next().await.serve().await });
    let mut ids = Vec::new();
    for _ in 0..SESSIONS {
        ids.push(bridge.create(&nobody(), thread()).await.unwrap().session_id);
    }
    let watching: Vec<_> = ids
        .iter()
        .map(|id| tokio::spawn(watch(stream_of(&bridge, id, Some(0), true))))
        .collect();
    let n_turns = std::sync::Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for id in &ids {
        for client in 0..CLIENTS {
            let work = meddle(bridge.clone(), id.clone(), client, n_turns.clone());
            clients.push(tokio::spawn(work));
        }
    }
    for client in clients {
        client.await.unwrap();
    }
    assert!(n_turns.load(Ordering::Relaxed) > 0);
    let closing: Vec<_> = ids[1..]
        .iter()
        .map(|id| {
            let (bridge, id) = (bridge.clone(), id.clone());
            tokio::spawn(async move { bridge.close(&nobody(), &id).await })
        })
        .collect();
    for closed in closing {
        closed.await.unwrap().unwrap();
    }
    assert!(bridge.shutdown().await);
    let mut lasts = Vec::new();
    for watched in watching {
        lasts.push(watched.await.unwrap());
    }
    assert_eq!(lasts[0], "session_died");
    assert!(
        lasts[1..].iter().all(|last| last == "session_closed"),
        "{lasts:?}"
    );
    child.await.unwrap();
}

/// Does what clients do, in an order of its own.
async fn meddle(bridge: Bridge, id: String, client: usize, n_turns: std::sync::Arc<AtomicUsize>) {
    for round in 0..ROUNDS {
        match bridge.prompt(&nobody(), &id, said("x")) {
            Ok(accepted) => {
                n_turns.fetch_add(1, Ordering::Relaxed);
                let query = TurnQuery::Prompt(&accepted.prompt_id);
                assert_eq!(
                    bridge.turn(&id, query).unwrap().prompt_id,
                    accepted.prompt_id
                );
                if (round + client).is_multiple_of(5) {
                    let id = id.clone();
                    bridge
                        .remove_prompt(&nobody(), &id, &accepted.prompt_id)
                        .await
                        .unwrap();
                }
            }
            Err(Error::PromptQueueFull { .. }) => tokio::task::yield_now().await,
            Err(other) => panic!("{other}"),
        }
        match (round + client) % 4 {
            0 => bridge.cancel(&nobody(), &id).await.unwrap(),
            1 => {
                bridge
                    .set_approval_mode(&nobody(), &id, "plan")
                    .await
                    .unwrap();
            }
            2 => {
                let loaded = bridge.load(&nobody(), &id, Restore::default()).await;
                assert!(loaded.unwrap().opened.attached);
            }
            _ => {
                let voted = bridge.vote(&nobody(), None, "nothing", Vote::Cancelled);
                assert!(voted.is_err());
                let shared = bridge.create(&nobody(), NewSession::default()).await;
                bridge.detach(&nobody(), &shared.unwrap().session_id).await;
            }
        }
        assert!(bridge.sessions().len() >= SESSIONS);
        assert_eq!(bridge.health().status, "ok");
    }
}

/// The kind of the last event, once all ids came in order.
async fn watch(mut stream: Stream) -> String {
    let mut last_id = 0;
    let mut last = String::new();
    while let Some(frame) = stream.next().await {
        if let Some(id) = frame.id {
            assert_eq!(id, last_id + 1);
            last_id = id;
            last = frame.kind;
        }
    }
    last
}
