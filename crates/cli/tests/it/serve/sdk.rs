//! Our SDK as a client of our daemon and of the real one: it comes to the same whatever happens to its
//! connection, and knows at any time whether the session is recorded.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use sdk::{
    client::{Client, Error},
    follow::{Change, Follow, Options},
    normalize::{Status, view},
};
use testkit::{faults::Immutable, home::Home, served::Served, stub_model::StubModel};
use wire::state::{Item, Session};

use super::{Hosted, ours};
use crate::world::shell;

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let bounded = async { tokio::time::timeout(Duration::from_secs(60), work).await };
    runtime.block_on(bounded).expect("it comes to an end")
}

fn client(address: SocketAddr) -> Client {
    Client::new(&format!("http://{address}"), None).unwrap()
}

fn quick() -> Options {
    Options {
        retry_first: Duration::from_millis(5),
        ..Options::default()
    }
}

/// Follows up to a state.
async fn until(follow: &mut Follow, what: &str, is: impl Fn(&Session) -> bool) {
    while !is(follow.session()) {
        match follow.next().await.unwrap() {
            Some(Change::Invalid(invalid)) => panic!("{invalid}"),
            Some(_) => {}
            None => panic!("{what} did not come: {:?}", follow.session()),
        }
    }
}

async fn turn(client: &Client, follow: &mut Follow, text: &str) {
    let id = follow.session().session_id.clone();
    let accepted = client.prompt(&id, follow.client_id(), text).await.unwrap();
    let ended = |session: &Session| {
        session
            .last_turn
            .as_ref()
            .is_some_and(|turn| turn.prompt_id == accepted.prompt_id)
    };
    until(follow, "the end of the turn", ended).await;
}

fn said(session: &Session) -> String {
    let texts = session.items.iter().filter_map(|item| match item {
        Item::Message(message) => Some(message.text.as_str()),
        Item::Tool(_) => None,
    });
    texts.collect::<Vec<_>>().join("|")
}

fn a_turn_a_question_and_a_close(hosted: Hosted) {
    let (home, stub) = (Home::new(), StubModel::prompts(2));
    let Some(daemon) = hosted.start(&home, &stub) else {
        return;
    };
    block_on(async {
        let client = client(daemon.address());
        let opened = client.create(Some("default")).await.unwrap();
        let mut follow = client.follow(&opened.session_id, quick());
        until(&mut follow, "the load", |session| session.epoch.is_some()).await;
        turn(&client, &mut follow, "hello").await;
        assert_eq!(said(follow.session()), "hello|hello world hello world ");

        let id = opened.session_id.clone();
        client
            .prompt(&id, follow.client_id(), &shell("touch made"))
            .await
            .unwrap();
        until(&mut follow, "a question", |s| !s.permissions.is_empty()).await;
        assert_eq!(view(follow.session()).status, Status::Waiting);
        let request = follow.session().permissions[0].request_id.clone();
        client
            .vote(&id, follow.client_id(), &request, Some("proceed_once"))
            .await
            .unwrap();
        until(&mut follow, "the end", |s| {
            s.permissions.is_empty() && s.running.is_none()
        })
        .await;
        assert!(home.workspace().join("made").exists());

        client.close(&id, follow.client_id()).await.unwrap();
        until(&mut follow, "the close", |session| session.ending.is_some()).await;
        assert!(follow.next().await.unwrap().is_none());
    });
}

#[test]
fn a_client_of_our_daemon_sees_a_turn_a_question_and_a_close() {
    a_turn_a_question_and_a_close(Hosted::Ours);
}

#[test]
fn a_client_of_the_real_daemon_sees_a_turn_a_question_and_a_close() {
    a_turn_a_question_and_a_close(Hosted::OursByReal);
}

/// R23, R24: told live, told to who comes late, and gone with the session that is loaded anew.
#[test]
fn a_client_knows_whether_the_session_is_recorded() {
    let (home, stub) = (Home::new(), StubModel::hello(1));
    let daemon = Served::start(&mut ours(&home, &stub));
    block_on(async {
        let client = client(daemon.address());
        let id = client.create(None).await.unwrap().session_id;
        let mut follow = client.follow(&id, quick());
        until(&mut follow, "the load", |session| session.epoch.is_some()).await;
        turn(&client, &mut follow, "saved").await;
        let Some(immutable) = Immutable::new(&home.transcripts()[0]) else {
            return;
        };
        assert!(!view(follow.session()).recording.degraded);
        turn(&client, &mut follow, "lost").await;
        let notices = view(follow.session()).notices;
        assert_eq!(notices.len(), 1, "{notices:?}");
        assert_eq!(
            notices[0].id,
            format!("daemon.session_recording_degraded:{id}")
        );
        let renamed = client
            .rename(&id, follow.client_id(), "a name")
            .await
            .unwrap();
        assert_eq!(renamed.persisted, Some(false), "R27");

        let mut late = client.follow(&id, quick());
        until(&mut late, "the load", |session| session.epoch.is_some()).await;
        assert_eq!(view(late.session()).notices, notices);
        client.close(&id, None).await.unwrap();
        drop(immutable);
        let mut again = client.follow(&id, quick());
        until(&mut again, "the load", |session| session.epoch.is_some()).await;
        assert!(view(again.session()).notices.is_empty());
    });
}

/// A way to the daemon that is cut after so many bytes of each answer, as long as it is bad.
struct BadWay {
    address: SocketAddr,
    is_bad: Arc<AtomicBool>,
}

impl BadWay {
    fn to(daemon: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_bad = Arc::new(AtomicBool::new(true));
        let bad = Arc::clone(&is_bad);
        thread::spawn(move || {
            for (n, client) in listener.incoming().enumerate() {
                let Ok(client) = client else { return };
                let limit = if bad.load(Ordering::Relaxed) {
                    // Sometimes nothing comes, sometimes more than a whole answer.
                    [0, 900, 3_000, 40, 12_000][n % 5]
                } else {
                    usize::MAX
                };
                thread::spawn(move || carry(client, daemon, limit));
            }
        });
        Self { address, is_bad }
    }
}

fn carry(mut client: TcpStream, daemon: SocketAddr, limit: usize) {
    let Ok(mut server) = TcpStream::connect(daemon) else {
        return;
    };
    let (Ok(mut from), Ok(mut to)) = (client.try_clone(), server.try_clone()) else {
        return;
    };
    thread::spawn(move || std::io::copy(&mut from, &mut to));
    let mut left = limit;
    let mut bytes = [0; 512];
    while left > 0 {
        let n_read = server.read(&mut bytes).unwrap_or(0);
        let n_passed = n_read.min(left);
        if n_read == 0 || client.write_all(&bytes[..n_passed]).is_err() {
            break;
        }
        left = left.saturating_sub(n_read);
    }
    // Dropped: whichever side is gone already is gone.
    _ = client.shutdown(std::net::Shutdown::Both);
    // Dropped: as above.
    _ = server.shutdown(std::net::Shutdown::Both);
}

/// However its way is cut, a client ends where an undisturbed one is.
/// case-I01, case-I03: whatever happens to its connection.
#[test]
fn a_client_behind_a_bad_way_comes_to_the_same() {
    let (home, stub) = (Home::new(), StubModel::hello(200));
    // Who comes another way names another host, which a daemon for this machine alone refuses.
    let mut command = ours(&home, &stub);
    command
        .args(["--hostname", "0.0.0.0"])
        .env("ONRECORD_TOKEN", "secret");
    let daemon = Served::start(&mut command);
    let way = BadWay::to(daemon.address());
    let client = |at: SocketAddr| Client::new(&format!("http://{at}"), Some("secret")).unwrap();
    block_on(async {
        let (good, bad) = (client(daemon.address()), client(way.address));
        let id = good.create(None).await.unwrap().session_id;
        let mut undisturbed = good.follow(&id, quick());
        until(&mut undisturbed, "the load", |s| s.epoch.is_some()).await;
        let mut disturbed = bad.follow(&id, quick());
        let follow_on = async {
            // Until it was there once, it is for its user to try again.
            while disturbed.session().epoch.is_none() {
                match disturbed.next().await {
                    Ok(_) | Err(Error::Unreachable(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            let ended = |session: &Session| {
                said(session).matches("one more").count() == 5 && session.running.is_none()
            };
            until(&mut disturbed, "the end", ended).await;
        };
        let work = async {
            for _ in 0..5 {
                turn(&good, &mut undisturbed, "one more").await;
            }
            way.is_bad.store(false, Ordering::Relaxed);
        };
        tokio::join!(work, follow_on);
        let of = |session: &Session| {
            let mut session = session.clone();
            // Tokens of folded turns, and where a prompt's words were joined, are no part of what is shown.
            session.usage = None;
            session.commands.clear();
            (
                said(&session),
                session.last_turn,
                session.last_event_id,
                session.epoch,
            )
        };
        assert_eq!(of(disturbed.session()), of(undisturbed.session()));
    });
}
