/** Checked events. Mirrors `wire::event::Payload`. */

import type { Command, PermissionOption, PlanEntry, RecordingState, Role, Usage } from './state.js';

/** What is said of a tool call; what is absent is not said. */
export interface ToolCallFields {
  toolCallId: string;
  title?: string;
  kind?: string;
  status?: string;
  content?: unknown[];
  locations?: unknown[];
  rawInput?: unknown;
  rawOutput?: unknown;
}

/** How a session stands; what is absent is not said. */
export interface Snapshot {
  currentModelId?: string | null;
  currentApprovalMode?: string | null;
  recordingDegraded?: boolean;
  recordingState?: RecordingState;
}

/** What an event says. */
export type Payload =
  | { type: 'text'; role: Role; text: string; usage?: Usage }
  | { type: 'tool_call'; fields: ToolCallFields }
  | { type: 'plan'; entries: PlanEntry[] }
  | { type: 'commands'; commands: Command[] }
  | { type: 'mode'; mode: string }
  | { type: 'title'; title: string }
  | { type: 'permission_request'; requestId: string; toolCall: ToolCallFields; options: PermissionOption[] }
  | { type: 'permission_resolved'; requestId: string }
  | { type: 'prompt_queued'; promptId: string; text: string; queuedAt: number }
  | { type: 'prompt_started'; promptId: string }
  | { type: 'prompt_done'; promptId: string }
  | { type: 'turn_complete'; promptId: string; stopReason: string }
  | { type: 'turn_error'; promptId: string; message: string; code?: string }
  | { type: 'model_switched'; modelId: string }
  | { type: 'recording_degraded'; reason: string }
  | { type: 'snapshot'; snapshot: Snapshot }
  | { type: 'ended'; died: boolean; reason: string }
  | { type: 'resync_required'; reason: string }
  | { type: 'other' };

/** A checked event. */
export interface Event {
  /** Of the bus; absent in frames for one stream. */
  id?: number;
  /** The prompt it belongs to. */
  promptId?: string;
  payload: Payload;
}
