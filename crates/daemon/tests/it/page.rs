//! Static files, and lists of stored sessions.

use std::fs;

use serde_json::{Value, json};
use testkit::transcripts::CWD;

use crate::rig::{Rig, Setup, ask, get};

fn with_page() -> (Rig, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let web = folder.path().join("web");
    fs::create_dir_all(web.join("assets")).unwrap();
    fs::write(web.join("index.html"), "<p>the page").unwrap();
    fs::write(web.join("assets/a.js"), "let a;").unwrap();
    fs::write(folder.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(folder.path().join("secret"), web.join("assets/link")).unwrap();
    let rig = Setup::with(|options| {
        options.web_dir = Some(web);
        options.token = Some("s3cret".to_owned());
    });
    (rig.healthy(), folder)
}

#[tokio::test]
async fn the_page_needs_no_token_and_nothing_beside_it_is_served() {
    let (rig, _folder) = with_page();
    for path in ["/", "/index.html"] {
        let page = rig.get(path).await;
        assert_eq!((page.status, &*page.text()), (200, "<p>the page"));
        assert!(page.header("content-type").starts_with("text/html"));
    }
    let asset = rig.get("/assets/a.js").await;
    assert_eq!((asset.status, &*asset.text()), (200, "let a;"));
    assert!(asset.header("content-type").contains("javascript"));
    for path in [
        "/assets/../../secret",
        "/assets/%2e%2e/%2e%2e/secret",
        "/assets/..%2f..%2fsecret",
        "/assets/....//secret",
        "/assets/%2fetc%2fpasswd",
        "/assets/a.js%00",
        "/assets/link",
        "/assets/",
        "/secret",
    ] {
        let answer = rig.get(path).await;
        assert_ne!(answer.status, 200, "{path}");
        assert!(
            !answer.text().contains("secret\n") && answer.text() != "secret",
            "{path}"
        );
    }
    // What is no file of the page asks for the token, whatever a browser would take.
    let other = rig
        .send(ask("GET", "/capabilities", &[("accept", "text/html")]))
        .await;
    assert_eq!(other.status, 401);
}

#[tokio::test]
async fn a_list_is_given_in_pages_that_make_up_the_whole() {
    let rig = Setup::new().healthy();
    for n in 0..25 {
        rig.store(&format!("00000000-0000-4000-8000-{n:012}"), "stored");
    }
    let workspace = CWD.replace('/', "%2F");
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/workspace/{workspace}/sessions?size=10{cursor}");
        let page = rig.get(&path).await.is_good();
        let rows = page["sessions"].as_array().unwrap();
        assert!(rows.len() <= 10);
        seen.extend(
            rows.iter()
                .map(|row| row["sessionId"].as_str().unwrap().to_owned()),
        );
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), 25);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 25, "each once");
}

#[tokio::test]
async fn a_session_is_archived_brought_back_and_deleted() {
    const OWN: &str = "550e8400-e29b-41d4-a716-446655440000";
    let rig = Setup::new().healthy();
    rig.store(OWN, "stored");
    let ids = json!({"sessionIds": [OWN]});
    let workspace = CWD.replace('/', "%2F");
    let listed = async |state: &str| {
        let path = format!("/workspace/{workspace}/sessions?archiveState={state}");
        let page = rig.get(&path).await.is_good();
        page["sessions"].as_array().map_or(0, Vec::len)
    };
    let outcome = |answer: Value, name: &str| assert_eq!(answer[name], json!([OWN]), "{answer}");
    outcome(
        rig.post("/sessions/archive", &ids).await.is_good(),
        "archived",
    );
    outcome(
        rig.post("/sessions/archive", &ids).await.is_good(),
        "alreadyArchived",
    );
    assert_eq!((listed("active").await, listed("archived").await), (0, 1));
    outcome(
        rig.post("/sessions/unarchive", &ids).await.is_good(),
        "unarchived",
    );
    outcome(
        rig.post("/sessions/unarchive", &ids).await.is_good(),
        "alreadyActive",
    );
    let exported = rig
        .send(get(&format!("/session/{OWN}/export?format=jsonl")))
        .await;
    assert!(exported.text().lines().count() >= 2 && exported.text().contains("stored"));
    outcome(
        rig.post("/sessions/delete", &ids).await.is_good(),
        "removed",
    );
    for route in ["archive", "unarchive", "delete"] {
        let answer = rig
            .post(&format!("/sessions/{route}"), &ids)
            .await
            .is_good();
        outcome(answer, "notFound");
    }
    for wrong in [
        json!({}),
        json!({"sessionIds": []}),
        json!({"sessionIds": [1]}),
        json!({"sessionIds": "x"}),
    ] {
        let answer = rig.post("/sessions/delete", &wrong).await;
        answer.is_error(400, &json!({"code": "invalid_request"}));
    }
    // A session that said nothing is closed, and there is nothing of it to archive.
    let silent = rig.session().await;
    let answer = rig
        .post("/sessions/archive", &json!({"sessionIds": [silent]}))
        .await
        .is_good();
    assert_eq!(
        (&answer["archived"], &answer["notFound"]),
        (&json!([]), &json!([silent]))
    );
}
