//! The daemon against its own OpenAPI document: requests that schemathesis makes up from it.

use std::{fs, path::Path, process::Command};

use testkit::{home::Home, peers::Schemathesis, run::run, served::Served, stub_model::StubModel};

use super::ours;

/// Not held: a body that is no object counts as an empty one, so that bad data may be good (daemon protocol §2),
/// and what the document calls good may name what is not there; a route's other methods are not found, as there.
const CHECKS_OFF: &str = "negative_data_rejection,positive_data_acceptance,unsupported_method";

/// What fails in the agent is a 500, and what it does not know a 501 (daemon protocol §13).
const MAY_FAIL: &str = "/session/{id}/(model|context-usage)$";

/// What ends the session that the others use; and streams, which do not end by themselves.
const LEFT_OUT: &str =
    "DELETE /session/{id}$|/session/{id}/(detach|events)$|/sessions/(delete|archive)$";

/// The arguments of a run over some of the routes, in which nothing may be found.
fn holds(command: &mut Command, daemon: &Served, args: &[&str]) {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/openapi.json");
    command
        .arg("run")
        .arg(document)
        .args(["--url", &format!("http://{}", daemon.address())])
        .args(["--checks", "all", "--phases", "coverage,fuzzing"])
        .args(["--max-examples", "15", "--seed", "1"])
        .args(["--request-timeout", "30", "--no-color"])
        .args(["--generation-database", "none"])
        .args(["--suppress-health-check", "all"])
        .args(args);
    let ran = run(command);
    assert_eq!(ran.code, 0, "{args:?}: {}{}", ran.stdout, ran.stderr);
}

#[test]
fn no_request_that_can_be_made_up_breaks_the_document() {
    let Some(schemathesis) = Schemathesis::find() else {
        return;
    };
    let (home, stub) = (Home::new(), StubModel::hello(1));
    let daemon = Served::start(ours(&home, &stub).args(["--max-sessions", "0"]));
    let session = daemon.session("default");
    daemon.turn(&session, &mut daemon.events(&session, ""), "say hello");
    let workspace = home.workspace();
    let workspace = workspace.to_str().unwrap().replace('/', "%2F");
    let config = home.path().join("schemathesis.toml");
    let text = format!(
        "[parameters]\n\"path.id\" = \"{session}\"\n\n\
         [[operations]]\ninclude-path-regex = \"^/workspaces?/\"\n\
         parameters = {{ \"path.id\" = \"{workspace}\" }}\n"
    );
    fs::write(&config, text).unwrap();
    let with_session = || {
        let mut command = schemathesis.command(&home);
        command.arg("--config-file").arg(&config);
        command
    };
    let others = format!("{LEFT_OUT}|{MAY_FAIL}");
    let off = ["--exclude-checks", CHECKS_OFF];
    let args = [off[0], off[1], "--exclude-name-regex", &others];
    holds(&mut with_session(), &daemon, &args);
    let off_here = format!("{CHECKS_OFF},not_a_server_error");
    let args = [off[0], &off_here, "--include-name-regex", MAY_FAIL];
    holds(&mut with_session(), &daemon, &args);
    // With ids that are made up, too.
    let args = [off[0], &off_here, "--exclude-name-regex", "/events$"];
    holds(&mut schemathesis.command(&home), &daemon, &args);
}
