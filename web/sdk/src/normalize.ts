/** What a session means to a person: pure, and the same in both languages. Mirrors `sdk::normalize`. */

import type { Command, Item, Permission, PlanEntry, Queued, RecordingState, Session, Usage } from './state.js';
import { DEGRADED_MESSAGE } from './words.js';

/** What goes on in a session. */
export type Status = 'idle' | 'running' | 'waiting' | 'resyncing' | 'ended';

/** Something that a person is told. */
export interface Notice {
  /** The same for the same thing, however it became known. */
  id: string;
  kind: 'recording_degraded' | 'turn_failed' | 'session_ended';
  severity: 'error' | 'warning' | 'info';
  /** Whether work can go on. */
  recoverable: boolean;
  message: string;
  /** What the person can do. */
  action?: 'new_session';
}

/** What is shown of a session. */
export interface View {
  sessionId: string;
  title?: string;
  status: Status;
  model?: string;
  approvalMode?: string;
  items: Item[];
  plan: PlanEntry[];
  permissions: Permission[];
  queue: Queued[];
  usage?: Usage;
  commands: Command[];
  notices: Notice[];
  /** The record, as a lasting mark. */
  recording: { degraded: boolean; state?: RecordingState };
}

/** The id of the notice about a session's record. */
export function recordingNoticeId(sessionId: string): string {
  return `daemon.session_recording_degraded:${sessionId}`;
}

/** What is shown of a session. */
export function view(session: Session): View {
  return {
    sessionId: session.sessionId,
    ...(session.title === undefined ? {} : { title: session.title }),
    status: status(session),
    ...(session.currentModelId === null ? {} : { model: session.currentModelId }),
    ...(session.currentApprovalMode === null ? {} : { approvalMode: session.currentApprovalMode }),
    items: session.items,
    plan: session.plan,
    permissions: session.permissions,
    queue: session.queue,
    ...(session.usage === undefined ? {} : { usage: session.usage }),
    commands: session.commands,
    notices: notices(session),
    recording: {
      degraded: session.recordingDegraded,
      ...(session.recordingState === undefined ? {} : { state: session.recordingState }),
    },
  };
}

function status(session: Session): Status {
  if (session.ending) return 'ended';
  if (session.isResyncPending) return 'resyncing';
  if (session.permissions.length > 0) return 'waiting';
  return session.running === undefined ? 'idle' : 'running';
}

function notices(session: Session): Notice[] {
  const notices: Notice[] = [];
  if (session.recordingDegraded && !session.isNoticeDismissed) {
    notices.push({
      id: recordingNoticeId(session.sessionId),
      kind: 'recording_degraded',
      severity: 'error',
      recoverable: true,
      message: DEGRADED_MESSAGE,
      action: 'new_session',
    });
  }
  const turn = session.running === undefined ? session.lastTurn : undefined;
  if (turn?.failure) {
    notices.push({
      id: `daemon.turn_failed:${turn.promptId}`,
      kind: 'turn_failed',
      severity: 'error',
      recoverable: true,
      message: turn.failure.message,
    });
  }
  if (session.ending) {
    notices.push({
      id: `daemon.session_ended:${session.sessionId}`,
      kind: 'session_ended',
      severity: session.ending.died ? 'error' : 'info',
      recoverable: false,
      message: session.ending.reason,
    });
  }
  return notices;
}
