//! Live sessions as lists and health show them.

use wire::{
    http::{Health, LiveRow, SessionRow},
    recording::RecordingState,
};

use crate::{entry::Held, times::iso, workspace::Workspace};

/// A live session.
pub(crate) fn session_row(workspace: &Workspace, held: &Held<'_>) -> SessionRow {
    let entry = held.entry;
    let view = entry.view();
    let has_active_prompt = held.prompts.is_running();
    let work = entry.channel.work();
    let pending_interactions = held.permissions.interactions();
    let is_waiting_for = |kind: &str| pending_interactions.iter().any(|open| open.kind == kind);
    let title = held.title.clone();
    let (display_name, title_source) =
        title.map_or((None, None), |title| (Some(title.text), title.source));
    let source = held.source.clone();
    let (source_type, source_id) =
        source.map_or((None, None), |source| (Some(source.kind), source.id));
    SessionRow {
        session_id: entry.id.clone(),
        workspace_cwd: workspace.options.workspace.to_string_lossy().into_owned(),
        created_at: iso(entry.created_at_ms),
        updated_at: held.updated_at_ms.map(iso),
        display_name,
        title_source,
        source_type,
        source_id,
        client_count: held.clients.len(),
        has_active_prompt,
        active_work_state: work.state_of(&entry.id, has_active_prompt).to_owned(),
        has_running_background_tasks: work.has_background(&entry.id),
        is_waiting_for_permission: is_waiting_for("permission"),
        is_waiting_for_user_question: is_waiting_for("user_question"),
        pending_interaction_count: pending_interactions.len(),
        has_turn_error: held.turn_error.is_some(),
        turn_error: held.turn_error.clone(),
        pending_interactions,
        recording_degraded: view.recording_degraded,
        recording_state: view.recording_state,
    }
}

/// The same in short.
pub(crate) fn live_row(row: SessionRow) -> LiveRow {
    LiveRow {
        session_id: row.session_id,
        client_count: row.client_count,
        has_active_prompt: row.has_active_prompt,
        active_work_state: row.active_work_state,
        has_running_background_tasks: row.has_running_background_tasks,
        is_waiting_for_permission: row.is_waiting_for_permission,
        is_waiting_for_user_question: row.is_waiting_for_user_question,
        updated_at: row.updated_at,
        recording_degraded: row.recording_degraded,
        recording_state: row.recording_state,
    }
}

/// The live sessions, the last active first.
pub(crate) fn session_rows(workspace: &Workspace) -> Vec<SessionRow> {
    let entries = workspace.entries();
    let mut rows: Vec<(u64, SessionRow)> = entries
        .iter()
        .map(|entry| {
            let held = entry.hold();
            let at = held.updated_at_ms.unwrap_or(entry.created_at_ms);
            (at, session_row(workspace, &held))
        })
        .collect();
    rows.sort_by(|a, b| {
        b.0.cmp(&a.0)
            .then_with(|| a.1.session_id.cmp(&b.1.session_id))
    });
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Counts and ages.
pub(crate) fn health(workspace: &Workspace) -> Health {
    let entries = workspace.entries();
    let mut health = Health {
        status: "ok".to_owned(),
        workspace_count: 1,
        sessions: entries.len(),
        pending_permissions: 0,
        active_prompts: 0,
        active_work: false,
        active_work_reporting: "none".to_owned(),
        active_work_stale_ms: 0,
        connected_clients: 0,
        channel_alive: false,
        last_activity_at: None,
        idle_since_ms: None,
        recording_degraded: 0,
        recording_never_started: 0,
        prompt_queue_full: workspace
            .n_queue_full
            .load(std::sync::atomic::Ordering::Relaxed),
        evictions: 0,
        resyncs: 0,
    };
    for entry in &entries {
        let held = entry.hold();
        let row = session_row(workspace, &held);
        health.pending_permissions += row.pending_interaction_count;
        health.active_prompts += usize::from(row.has_active_prompt);
        health.active_work |= row.has_active_prompt || row.active_work_state == "active";
        health.connected_clients += entry.bus.n_subscribers();
        health.recording_degraded += usize::from(row.recording_degraded);
        let never_started = row.recording_state == Some(RecordingState::NeverStarted);
        health.recording_never_started += usize::from(never_started);
    }
    if let Some(child) = workspace.child() {
        health.channel_alive = true;
        let work = child.work();
        if work.is_told() {
            "full".clone_into(&mut health.active_work_reporting);
            health.active_work_stale_ms = work.age_ms();
        }
    }
    if let Some(at_ms) = workspace.last_activity_ms() {
        health.last_activity_at = Some(iso(at_ms));
        health.idle_since_ms = Some((workspace.options.now_ms)().saturating_sub(at_ms));
    }
    let counts = workspace.counts();
    health.evictions = counts.evictions;
    health.resyncs = counts.resyncs;
    health
}
