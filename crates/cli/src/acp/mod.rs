//! `onrecord acp`: the agent of an editor or a daemon.

mod backend;
mod pipes;

use std::{env, io, sync::Arc};

use acp_agent::{Parent, serve};
use tokio_util::sync::CancellationToken;
use wire::limits::SIDE_OUTPUT_END_WAIT_MAX;

use self::backend::Sessions;
use crate::{
    args::RunArgs,
    exit::Exit,
    open_files::{self, SOFT_LIMIT_VARIABLE},
    place::Place,
    resolve::{Refusal, plan},
    signals, stdio,
};

/// Speaks ACP until the input ends or a signal comes; both are a good end.
pub(crate) fn run(args: RunArgs) -> Exit {
    match try_run(args) {
        Ok(()) => Exit::Success,
        Err(refusal) => refusal.tell(),
    }
}

fn try_run(args: RunArgs) -> Result<(), Refusal> {
    if args.prompt.is_some() || !args.positional.is_empty() {
        return Err(Refusal::usage("acp takes no prompt: the client sends them"));
    }
    let place = Place::find()?;
    let plan = plan(args, &place)?;
    for notice in &plan.notices {
        stdio::say(notice);
    }
    // Every session holds its transcript open.
    let own_limit = open_files::raise();
    let open_files = variable(SOFT_LIMIT_VARIABLE)
        .and_then(|limit| limit.parse().ok())
        .or(own_limit);
    let end = CancellationToken::new();
    signals::cancel_on_signal(end.clone())
        .map_err(|error| Refusal::usage(format!("cannot handle signals: {}", error.kind())))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Refusal::usage(format!("cannot start: {}", error.kind())))?;
    let no_thread =
        |error: io::Error| Refusal::usage(format!("cannot start a thread: {}", error.kind()));
    let input = pipes::input().map_err(no_thread)?;
    let (output, written) = pipes::output(end.clone()).map_err(no_thread)?;
    runtime.block_on(async {
        let backend = Arc::new(Sessions::new(plan, place, open_files));
        serve(input, output, backend, parent(), end).await;
        // Dropped: a client that does not read is not waited for.
        _ = tokio::time::timeout(SIDE_OUTPUT_END_WAIT_MAX, written).await;
    });
    // A tool or a look-up that hangs in a thread of its own must not keep the process.
    runtime.shutdown_background();
    Ok(())
}

/// What the daemon that starts us says in the environment.
fn parent() -> Parent {
    Parent {
        capability: variable("QWEN_CODE_PRIVATE_ACP_CAPABILITY"),
        guards: variable("QWEN_CODE_PRIVATE_EXTERNAL_TOOL_GUARD").as_deref() == Some("required-v1"),
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
