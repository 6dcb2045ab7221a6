/** What a session is, as its stream tells it. Mirrors `wire::state` field by field. */

/** Whose words they are. */
export type Role = 'user' | 'agent' | 'thought';

/** The level of a record; a word of a later version counts as absent. */
export type RecordingState = 'saved' | 'pending' | 'never_started' | 'degraded' | 'off';

/** Tokens of a model call. */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  totalTokens: number;
  thoughtTokens: number;
  cachedReadTokens: number;
}

/** A step of a plan. */
export interface PlanEntry {
  content: string;
  priority: string;
  status: string;
}

/** A slash command, without the slash. */
export interface Command {
  name: string;
  description: string;
}

/** Words of one side, joined. */
export interface Message {
  type: 'message';
  role: Role;
  text: string;
  promptId?: string;
}

/** A tool call, as it is known so far. */
export interface ToolCall {
  toolCallId: string;
  title: string;
  kind: string;
  status: string;
  content: unknown[];
  locations: unknown[];
  rawInput: unknown;
  rawOutput: unknown;
  promptId?: string;
}

/** A part of the conversation. */
export type Item = Message | ({ type: 'tool' } & ToolCall);

/** A choice of a question. */
export interface PermissionOption {
  optionId: string;
  name: string;
  kind: string;
}

/** An open question about a tool call. */
export interface Permission {
  requestId: string;
  toolCall: ToolCall;
  options: PermissionOption[];
}

/** A prompt that waits; `queuedAt` in ms since 1970. */
export interface Queued {
  promptId: string;
  text: string;
  queuedAt: number;
}

/** How a turn ended: by a reason of the agent, or by a failure. */
export interface EndedTurn {
  promptId: string;
  stopReason?: string;
  failure?: { message: string; code?: string };
}

/** A session as its stream tells it. */
export interface Session {
  sessionId: string;
  /** Of the bus; absent until it is known. */
  epoch?: string;
  /** The last event that counts here. */
  lastEventId: number;
  /** Something is missing: nothing but the record counts until the session is loaded. */
  isResyncPending: boolean;
  currentModelId: string | null;
  currentApprovalMode: string | null;
  /** Whether the record failed: set for good by the event, and by a snapshot in both directions. */
  recordingDegraded: boolean;
  /** The level of the record; absent where nobody told it. */
  recordingState?: RecordingState;
  title?: string;
  items: Item[];
  plan: PlanEntry[];
  permissions: Permission[];
  queue: Queued[];
  /** The prompt whose turn is running. */
  running?: string;
  lastTurn?: EndedTurn;
  usage?: Usage;
  commands: Command[];
  /** How it ended; absent while it lives. */
  ending?: { died: boolean; reason: string };
  /** Whether the notice about its record was dismissed. A later snapshot brings it back. */
  isNoticeDismissed: boolean;
}

/** A session of which nothing is known but its id. */
export function newSession(sessionId: string): Session {
  return {
    sessionId,
    lastEventId: 0,
    isResyncPending: false,
    currentModelId: null,
    currentApprovalMode: null,
    recordingDegraded: false,
    items: [],
    plan: [],
    permissions: [],
    queue: [],
    commands: [],
    isNoticeDismissed: false,
  };
}
