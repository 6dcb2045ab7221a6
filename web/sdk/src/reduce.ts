/** The fold of one session: pure but for the session that it is given, which it changes. Mirrors
 * `wire::state::Session`. */

import type { Event, Payload, ToolCallFields } from './event.js';
import { newSession, type EndedTurn, type Role, type Session, type ToolCall, type Usage } from './state.js';

/** Takes in an event. What came before, by its id, changes nothing; a gap in the ids is as good as
 * `state_resync_required`. The health of the record counts whatever else is missing. */
export function apply(session: Session, event: Event): void {
  const { payload } = event;
  if (payload.type === 'recording_degraded') {
    degrade(session);
  } else if (payload.type === 'snapshot') {
    takeSnapshot(session, payload.snapshot);
  } else if (payload.type === 'resync_required') {
    session.isResyncPending = true;
  }
  if (event.id !== undefined) {
    if (event.id <= session.lastEventId) return;
    if (session.lastEventId > 0 && event.id > session.lastEventId + 1) session.isResyncPending = true;
    if (!session.isResyncPending) session.lastEventId = event.id;
  }
  if (!session.isResyncPending) take(session, payload, event.promptId);
}

/** What a load says of the record; absent where an older daemon says nothing. */
export interface LoadedRecord {
  recordingDegraded: boolean;
  recordingState?: Session['recordingState'];
}

/** A session that begins anew with what a load answered: its folded events, and where its stream goes on. What
 * the load says of the record is authoritative; where it says nothing, what is known stays. */
export function load(
  before: Session,
  events: Iterable<Event>,
  lastEventId: number,
  epoch: string,
  record?: LoadedRecord,
): Session {
  const session = newSession(before.sessionId);
  session.currentModelId = before.currentModelId;
  session.currentApprovalMode = before.currentApprovalMode;
  session.recordingDegraded = before.recordingDegraded;
  if (before.recordingState !== undefined) session.recordingState = before.recordingState;
  session.isNoticeDismissed = before.isNoticeDismissed;
  if (before.title !== undefined) session.title = before.title;
  for (const event of events) {
    if (event.payload.type === 'recording_degraded') degrade(session);
    take(session, event.payload, event.promptId);
  }
  if (record) {
    session.recordingDegraded = record.recordingDegraded;
    delete session.recordingState;
    if (record.recordingState !== undefined) session.recordingState = record.recordingState;
    session.isNoticeDismissed = false;
  }
  session.lastEventId = lastEventId;
  session.epoch = epoch;
  return session;
}

/** The person has read the notice about the record. */
export function dismissNotice(session: Session): void {
  session.isNoticeDismissed = true;
}

function degrade(session: Session): void {
  session.recordingDegraded = true;
  // Only a level that somebody told goes on.
  if (session.recordingState !== undefined) session.recordingState = 'degraded';
}

function takeSnapshot(session: Session, snapshot: Extract<Payload, { type: 'snapshot' }>['snapshot']): void {
  if (snapshot.currentModelId !== undefined) session.currentModelId = snapshot.currentModelId;
  if (snapshot.currentApprovalMode !== undefined) session.currentApprovalMode = snapshot.currentApprovalMode;
  if (snapshot.recordingState !== undefined) session.recordingState = snapshot.recordingState;
  if (snapshot.recordingDegraded !== undefined) {
    session.recordingDegraded = snapshot.recordingDegraded;
    session.isNoticeDismissed = false;
  }
}

function take(session: Session, payload: Payload, promptId: string | undefined): void {
  switch (payload.type) {
    case 'text':
      return takeText(session, payload.role, payload.text, payload.usage, promptId);
    case 'tool_call':
      return takeCall(session, payload.fields, promptId);
    case 'plan':
      session.plan = payload.entries;
      return;
    case 'commands':
      session.commands = payload.commands;
      return;
    case 'mode':
      session.currentApprovalMode = payload.mode;
      return;
    case 'title':
      session.title = payload.title;
      return;
    case 'permission_request':
      closePermission(session, payload.requestId);
      session.permissions.push({
        requestId: payload.requestId,
        toolCall: newCall(payload.toolCall, promptId),
        options: payload.options,
      });
      return;
    case 'permission_resolved':
      return closePermission(session, payload.requestId);
    case 'prompt_queued': {
      const { promptId: id, text, queuedAt } = payload;
      session.queue.push({ promptId: id, text, queuedAt });
      return;
    }
    case 'prompt_started':
      unqueue(session, payload.promptId);
      session.running = payload.promptId;
      return;
    case 'prompt_done':
      return unqueue(session, payload.promptId);
    case 'turn_complete':
      return endTurn(session, { promptId: payload.promptId, stopReason: payload.stopReason });
    case 'turn_error': {
      const failure: EndedTurn['failure'] = { message: payload.message };
      if (payload.code !== undefined) failure.code = payload.code;
      return endTurn(session, { promptId: payload.promptId, failure });
    }
    case 'model_switched':
      session.currentModelId = payload.modelId;
      return;
    case 'ended':
      delete session.running;
      session.permissions = [];
      session.queue = [];
      session.ending = { died: payload.died, reason: payload.reason };
      return;
    case 'recording_degraded':
    case 'snapshot':
    case 'resync_required':
    case 'other':
      return;
  }
}

function takeText(
  session: Session,
  role: Role,
  text: string,
  usage: Usage | undefined,
  promptId: string | undefined,
): void {
  if (usage) session.usage = usage;
  if (role === 'user' && promptId !== undefined) session.running = promptId;
  if (text === '') return;
  const last = session.items.at(-1);
  if (last?.type === 'message' && last.role === role && last.promptId === promptId) {
    last.text += text;
    return;
  }
  session.items.push({ type: 'message', role, text, ...(promptId === undefined ? {} : { promptId }) });
}

function takeCall(session: Session, fields: ToolCallFields, promptId: string | undefined): void {
  // Mostly it is the last one.
  for (let at = session.items.length - 1; at >= 0; at -= 1) {
    const item = session.items[at];
    if (item?.type === 'tool' && item.toolCallId === fields.toolCallId) return assign(item, fields);
  }
  session.items.push({ type: 'tool', ...newCall(fields, promptId) });
}

function newCall(fields: ToolCallFields, promptId: string | undefined): ToolCall {
  const call: ToolCall = {
    toolCallId: fields.toolCallId,
    title: '',
    kind: 'other',
    status: 'pending',
    content: [],
    locations: [],
    rawInput: null,
    rawOutput: null,
  };
  if (promptId !== undefined) call.promptId = promptId;
  assign(call, fields);
  return call;
}

function assign(call: ToolCall, fields: ToolCallFields): void {
  if (fields.title !== undefined) call.title = fields.title;
  if (fields.kind !== undefined) call.kind = fields.kind;
  if (fields.status !== undefined) call.status = fields.status;
  if (fields.content !== undefined) call.content = fields.content;
  if (fields.locations !== undefined) call.locations = fields.locations;
  if (fields.rawInput !== undefined) call.rawInput = fields.rawInput;
  if (fields.rawOutput !== undefined) call.rawOutput = fields.rawOutput;
}

function closePermission(session: Session, requestId: string): void {
  session.permissions = session.permissions.filter((permission) => permission.requestId !== requestId);
}

function unqueue(session: Session, promptId: string): void {
  session.queue = session.queue.filter((queued) => queued.promptId !== promptId);
}

function endTurn(session: Session, turn: EndedTurn): void {
  if (session.running === turn.promptId) delete session.running;
  unqueue(session, turn.promptId);
  session.lastTurn = turn;
}
