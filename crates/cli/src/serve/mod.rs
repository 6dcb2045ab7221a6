//! `onrecord serve`: sessions for many clients over HTTP.

mod agent;
mod log;

use std::{
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};

use bridge::{Bridge, PermissionPolicy};
use daemon::Daemon;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use wire::limits::{
    AGENT_INITIALIZE_WAIT_MAX, AGENT_PREHEAT_DELAY, AGENT_RESTORE_WAIT_MAX, BUS_RING_EVENTS_MAX,
    SESSION_IDLE_MAX,
};

use crate::{
    args::{self, ServeArgs},
    exit::Exit,
    open_files,
    place::{Place, physical},
    resolve::Refusal,
    signals, stdio,
};

/// Serves until a signal comes, which is a good end.
pub(crate) fn run(args: ServeArgs) -> Exit {
    match try_run(&args) {
        Ok(()) => Exit::Success,
        Err(refusal) => refusal.tell(),
    }
}

fn try_run(args: &ServeArgs) -> Result<(), Refusal> {
    let place = Place::find()?;
    let workspace = match &args.workspace {
        Some(folder) => physical(&place.cwd, folder),
        None => place.cwd.clone(),
    };
    if !workspace.is_dir() {
        return Err(Refusal::usage(
            "--workspace is no folder; make it, or name another",
        ));
    }
    let _log = log::start();
    let open_files = open_files::raise();
    let command = agent::command(args, &workspace, open_files)?;
    let end = CancellationToken::new();
    signals::cancel_on_signal(end.clone())
        .map_err(|error| Refusal::usage(format!("cannot handle signals: {}", error.kind())))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Refusal::usage(format!("cannot start: {}", error.kind())))?;
    let is_good = runtime.block_on(async {
        let bridge = Bridge::new(bridge_options(args, workspace.clone()), Arc::new(command));
        let daemon = Daemon::new(
            daemon_options(args, &place, workspace.clone()),
            bridge.clone(),
        );
        let at = address(args)?;
        daemon
            .check(at)
            .map_err(|refused| Refusal::usage(refused.to_string()))?;
        let listener = TcpListener::bind(at).await.map_err(|error| {
            Refusal::usage(format!(
                "cannot listen on {at} ({}); end what listens there, or choose another --port",
                error.kind()
            ))
        })?;
        let at = listener.local_addr().unwrap_or(at);
        let line = format!(
            "onrecord listening on http://{at} (mode=http-bridge, workspace={})\n",
            workspace.display()
        );
        // Dropped: who reads no line asks for its health.
        _ = stdio::print(line.as_bytes());
        let ahead = tokio::spawn(async move {
            tokio::time::sleep(AGENT_PREHEAT_DELAY).await;
            bridge.preheat().await;
        });
        let is_good = daemon.serve(listener, end).await;
        ahead.abort();
        Ok(is_good)
    })?;
    runtime.shutdown_background();
    if !is_good {
        tracing::warn!("the agent did not end well");
    }
    Ok(())
}

fn address(args: &ServeArgs) -> Result<SocketAddr, Refusal> {
    let host = args.hostname.trim_matches(['[', ']']);
    let mut addresses = (host, args.port).to_socket_addrs().map_err(|error| {
        Refusal::usage(format!(
            "--hostname is no address of this machine ({})",
            error.kind()
        ))
    })?;
    addresses
        .next()
        .ok_or_else(|| Refusal::usage("--hostname has no address"))
}

fn policy(args: &ServeArgs) -> PermissionPolicy {
    match args.permission_policy {
        args::PermissionPolicy::FirstResponder => PermissionPolicy::FirstResponder,
        args::PermissionPolicy::Designated => PermissionPolicy::Designated,
        args::PermissionPolicy::LocalOnly => PermissionPolicy::LocalOnly,
    }
}

fn bridge_options(args: &ServeArgs, workspace: std::path::PathBuf) -> bridge::Options {
    bridge::Options {
        workspace,
        permission_policy: policy(args),
        permission_wait: above_zero(args.permission_response_timeout_ms),
        prompts_max: args.max_pending_prompts_per_session.into(),
        sessions_max: limit(args.max_sessions),
        prompt_deadline: above_zero(args.prompt_deadline_ms),
        initialize_wait: AGENT_INITIALIZE_WAIT_MAX,
        restore_wait: AGENT_RESTORE_WAIT_MAX,
        idle_max: Some(SESSION_IDLE_MAX),
        bus: bus::Limits {
            ring_events: args
                .event_ring_size
                .and_then(|size| size.try_into().ok())
                .unwrap_or(BUS_RING_EVENTS_MAX),
            ..bus::Limits::default()
        },
        now_ms,
    }
}

fn daemon_options(
    args: &ServeArgs,
    place: &Place,
    workspace: std::path::PathBuf,
) -> daemon::Options {
    let token = args
        .token
        .as_deref()
        .map(str::trim)
        .filter(|token| !token.is_empty());
    daemon::Options {
        project: place.root.as_ref().map(|root| root.project(&workspace)),
        data_root: place.root.clone(),
        workspace,
        token: token.map(str::to_owned),
        require_auth: args.require_auth,
        allow_origins: args.allow_origin.clone(),
        rate_limit: args.rate_limit,
        web_dir: args.web_dir.clone().filter(|_| !args.no_web),
        metrics: args.metrics,
        writer_idle_max: above_zero(args.writer_idle_timeout_ms),
        permission_policy: match args.permission_policy {
            args::PermissionPolicy::FirstResponder => "first-responder",
            args::PermissionPolicy::Designated => "designated",
            args::PermissionPolicy::LocalOnly => "local-only",
        },
        prompts_max: args.max_pending_prompts_per_session.into(),
        sessions_max: limit(args.max_sessions),
        restore_wait: AGENT_RESTORE_WAIT_MAX,
        version: env!("CARGO_PKG_VERSION"),
        now_ms,
    }
}

fn above_zero(ms: u64) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms))
}

fn limit(n: usize) -> Option<usize> {
    (n > 0).then_some(n)
}

fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0)
}
