/** Frames are checked before they count: the envelope first, then the data by its type. Mirrors
 * `sdk::validate`.
 *
 * A known type whose data does not fit is an error that names the field. An unknown type is kept and changes
 * nothing. A frame of another session is refused. */

import type { Event, Payload, Snapshot, ToolCallFields } from './event.js';
import type { Command, PermissionOption, PlanEntry, RecordingState, Role, Usage } from './state.js';

/** `v` of every frame that is spoken. */
export const EVENT_SCHEMA_VERSION = 1;

/** Characters of a frame that is taken. */
export const FRAME_LENGTH_MAX = 16 * 1024 * 1024;

/** Why a frame does not count. */
export type Reason =
  | { code: 'too_large' }
  | { code: 'not_a_frame' }
  | { code: 'version' }
  | { code: 'other_session' }
  | { code: 'field'; kind: string; field: string };

/** A frame that does not count. */
export class InvalidFrame extends Error {
  override name = 'InvalidFrame';

  constructor(readonly reason: Reason) {
    super(
      reason.code === 'field'
        ? `${reason.kind}: ${reason.field} is not what it must be`
        : `the frame does not count: ${reason.code}`,
    );
  }
}

/** Checks one frame of the stream of a session, the text of its `data` line.
 * @throws {InvalidFrame} It does not count. */
export function frame(data: string, sessionId: string): Event {
  if (data.length > FRAME_LENGTH_MAX) throw new InvalidFrame({ code: 'too_large' });
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    throw new InvalidFrame({ code: 'not_a_frame' });
  }
  return checked(value, sessionId);
}

/** As {@link frame}, for one that is part of an answer.
 * @throws {InvalidFrame} It does not count. */
export function checked(value: unknown, sessionId: string): Event {
  if (!isObject(value)) throw new InvalidFrame({ code: 'not_a_frame' });
  const { id, v, type, data, promptId, originatorClientId, _meta: meta } = value;
  const isFrame =
    (absent(id) || isCount(id)) &&
    isCount(v) &&
    typeof type === 'string' &&
    data !== undefined &&
    (absent(promptId) || typeof promptId === 'string') &&
    (absent(originatorClientId) || typeof originatorClientId === 'string') &&
    (absent(meta) || (isObject(meta) && isCount(meta['serverTimestamp'])));
  if (!isFrame) throw new InvalidFrame({ code: 'not_a_frame' });
  if (v !== EVENT_SCHEMA_VERSION) throw new InvalidFrame({ code: 'version' });
  const payload = payloadOf(type, data, sessionId);
  return {
    ...(absent(id) ? {} : { id: id as number }),
    ...(absent(promptId) ? {} : { promptId: promptId as string }),
    payload,
  };
}

type Fields = Record<string, unknown>;

function payloadOf(kind: string, data: unknown, sessionId: string): Payload {
  if (!isObject(data)) throw wrong(kind, 'data');
  const read = READERS[kind];
  if (!read) return { type: 'other' };
  const payload = read(new Reader(kind, '', data));
  const named = new Reader(kind, '', data).optional('sessionId', isString);
  if (named !== undefined && named !== sessionId) throw new InvalidFrame({ code: 'other_session' });
  return payload;
}

const READERS: Record<string, (data: Reader) => Payload> = {
  session_update: update,
  permission_request: (data) => ({
    type: 'permission_request',
    requestId: data.required('requestId', isString),
    toolCall: callFields(data.object('toolCall')),
    options: data.list('options', (option): PermissionOption => ({
      optionId: option.required('optionId', isString),
      name: option.required('name', isString),
      kind: option.required('kind', isString),
    })),
  }),
  permission_resolved: resolved,
  permission_already_resolved: resolved,
  pending_prompt_added: (data) => ({
    type: 'prompt_queued',
    promptId: data.required('promptId', isString),
    text: data.required('text', isString),
    queuedAt: data.required('queuedAt', isCount),
  }),
  pending_prompt_started: (data) => ({ type: 'prompt_started', promptId: data.required('promptId', isString) }),
  pending_prompt_completed: (data) => ({ type: 'prompt_done', promptId: data.required('promptId', isString) }),
  turn_complete: (data) => ({
    type: 'turn_complete',
    promptId: data.required('promptId', isString),
    stopReason: data.required('stopReason', isString),
  }),
  turn_error: (data) => {
    const promptId = data.required('promptId', isString);
    const message = data.required('message', isString);
    const code = data.optional('code', isString);
    return { type: 'turn_error', promptId, message, ...(code === undefined ? {} : { code }) };
  },
  model_switched: (data) => ({ type: 'model_switched', modelId: data.required('modelId', isString) }),
  approval_mode_changed: (data) => ({ type: 'mode', mode: data.required('next', isString) }),
  session_metadata_updated: (data) => {
    const title = data.optional('displayName', isString);
    return title === undefined ? { type: 'other' } : { type: 'title', title };
  },
  session_recording_degraded: (data) => {
    data.required('sessionId', isString);
    return { type: 'recording_degraded', reason: data.required('reason', isString) };
  },
  session_snapshot: (data) => ({ type: 'snapshot', snapshot: snapshot(data) }),
  session_closed: (data) => ({ type: 'ended', died: false, reason: data.required('reason', isString) }),
  session_died: (data) => ({ type: 'ended', died: true, reason: data.required('reason', isString) }),
  state_resync_required: (data) => ({ type: 'resync_required', reason: data.required('reason', isString) }),
};

function resolved(data: Reader): Payload {
  return { type: 'permission_resolved', requestId: data.required('requestId', isString) };
}

function snapshot(data: Reader): Snapshot {
  const said: Snapshot = {};
  const model = data.present('currentModelId', isStringOrNull);
  if (model !== undefined) said.currentModelId = model;
  const mode = data.present('currentApprovalMode', isStringOrNull);
  if (mode !== undefined) said.currentApprovalMode = mode;
  const degraded = data.present('recordingDegraded', isBoolean);
  if (degraded !== undefined) said.recordingDegraded = degraded;
  // A word of a later version is as good as none.
  const state = data.present('recordingState', isString);
  if (state !== undefined && isRecordingState(state)) said.recordingState = state;
  return said;
}

function update(data: Reader): Payload {
  const update = data.object('update');
  switch (update.required('sessionUpdate', isString)) {
    case 'user_message_chunk':
      return text(update, 'user');
    case 'agent_message_chunk':
      return text(update, 'agent');
    case 'agent_thought_chunk':
      return text(update, 'thought');
    case 'tool_call':
    case 'tool_call_update':
      return { type: 'tool_call', fields: callFields(update) };
    case 'plan':
      return {
        type: 'plan',
        entries: update.list('entries', (entry): PlanEntry => ({
          content: entry.required('content', isString),
          priority: entry.present('priority', isString) ?? '',
          status: entry.required('status', isString),
        })),
      };
    case 'available_commands_update':
      return {
        type: 'commands',
        commands: update.list('availableCommands', (command): Command => ({
          name: command.required('name', isString),
          description: command.present('description', isString) ?? '',
        })),
      };
    case 'current_mode_update':
      return { type: 'mode', mode: update.required('currentModeId', isString) };
    case 'session_info_update': {
      const title = update.optional('title', isString);
      return title === undefined ? { type: 'other' } : { type: 'title', title };
    }
    default:
      return { type: 'other' };
  }
}

function text(update: Reader, role: Role): Payload {
  const content = update.object('content');
  const kind = content.required('type', isString);
  const said = content.optional('text', isString);
  const meta = update.optional('_meta', isObject);
  if (kind !== 'text') return { type: 'other' };
  if (said === undefined) throw content.wrong('text');
  const usage = meta === undefined ? undefined : usageOf(meta['usage']);
  return { type: 'text', role, text: said, ...(usage ? { usage } : {}) };
}

/** Tokens are a help: what is not understood of them is not told. */
function usageOf(value: unknown): Usage | undefined {
  if (!isObject(value)) return undefined;
  const usage: Usage = {
    inputTokens: 0,
    outputTokens: 0,
    totalTokens: 0,
    thoughtTokens: 0,
    cachedReadTokens: 0,
  };
  for (const name of Object.keys(usage) as (keyof Usage)[]) {
    const count = value[name];
    if (count === undefined) continue;
    if (!isCount(count)) return undefined;
    usage[name] = count;
  }
  return usage;
}

function callFields(data: Reader): ToolCallFields {
  const fields: ToolCallFields = { toolCallId: data.required('toolCallId', isString) };
  for (const name of ['title', 'kind', 'status'] as const) {
    const said = data.optional(name, isString);
    if (said !== undefined) fields[name] = said;
  }
  for (const name of ['content', 'locations'] as const) {
    const said = data.optional(name, Array.isArray);
    if (said !== undefined) fields[name] = said;
  }
  for (const name of ['rawInput', 'rawOutput'] as const) {
    const said = data.optional(name, isAnything);
    if (said !== undefined) fields[name] = said;
  }
  return fields;
}

/** Reads fields of an object, and names the one that is wrong. */
class Reader {
  constructor(
    private readonly kind: string,
    private readonly path: string,
    private readonly fields: Fields,
  ) {}

  /** A field that must be there. */
  required<T>(name: string, is: (value: unknown) => value is T): T {
    const value = this.fields[name];
    if (!is(value)) throw this.wrong(name);
    return value;
  }

  /** A field that may be absent or `null`. */
  optional<T>(name: string, is: (value: unknown) => value is T): T | undefined {
    const value = this.fields[name];
    if (absent(value)) return undefined;
    if (!is(value)) throw this.wrong(name);
    return value;
  }

  /** A field that may be absent, and must not be `null` unless that fits. */
  present<T>(name: string, is: (value: unknown) => value is T): T | undefined {
    const value = this.fields[name];
    if (value === undefined) return undefined;
    if (!is(value)) throw this.wrong(name);
    return value;
  }

  object(name: string): Reader {
    return new Reader(this.kind, `${this.path}${name}.`, this.required(name, isObject));
  }

  list<T>(name: string, each: (item: Reader) => T): T[] {
    const list = this.required(name, Array.isArray) as unknown[];
    return list.map((item, at) => {
      const path = `${this.path}${name}[${at}]`;
      if (!isObject(item)) throw wrong(this.kind, path);
      return each(new Reader(this.kind, `${path}.`, item));
    });
  }

  wrong(name: string): InvalidFrame {
    return wrong(this.kind, `${this.path}${name}`);
  }
}

function wrong(kind: string, field: string): InvalidFrame {
  return new InvalidFrame({ code: 'field', kind, field });
}

function absent(value: unknown): value is null | undefined {
  return value === undefined || value === null;
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isString(value: unknown): value is string {
  return typeof value === 'string';
}

function isStringOrNull(value: unknown): value is string | null {
  return value === null || typeof value === 'string';
}

function isBoolean(value: unknown): value is boolean {
  return typeof value === 'boolean';
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isAnything(value: unknown): value is unknown {
  return value !== undefined;
}

function isRecordingState(word: string): word is RecordingState {
  return ['saved', 'pending', 'never_started', 'degraded', 'off'].includes(word);
}
