/** Plays the steps of a fixture. */

import {
  InvalidFrame,
  apply,
  checked,
  dismissNotice,
  frame,
  load,
  type Event,
  type LoadedRecord,
  type Reason,
  type Session,
} from '../src/index.js';

/** What a client receives or does. */
export type Step = { frame: unknown } | { text: string } | { load: Load } | { dismiss: true };

interface Load {
  compactedReplay?: unknown[];
  liveJournal?: unknown[];
  lastEventId: number;
  eventEpoch: string;
  recordingDegraded?: boolean;
  recordingState?: Session['recordingState'];
}

/** A file of `spec/fixtures`. */
export interface Fixture {
  name: string;
  sessionId: string;
  snapshotsAndEventsInOrder: Step[];
  invalid: unknown[];
  state: unknown;
  view: unknown;
}

/** A session and the steps of it that did not count. */
export class Player {
  readonly invalid: ({ step: number } & Reason)[] = [];

  constructor(public session: Session) {}

  play(steps: Step[]): void {
    steps.forEach((step, at) => {
      if ('frame' in step) this.#take(at, () => checked(step.frame, this.session.sessionId));
      else if ('text' in step) this.#take(at, () => frame(step.text, this.session.sessionId));
      else if ('load' in step) this.#load(step.load);
      else dismissNotice(this.session);
    });
  }

  #take(step: number, check: () => Event): void {
    let event: Event;
    try {
      event = check();
    } catch (error) {
      if (!(error instanceof InvalidFrame)) throw error;
      this.invalid.push({ step, ...error.reason });
      return;
    }
    apply(this.session, event);
  }

  #load(body: Load): void {
    const frames = [...(body.compactedReplay ?? []), ...(body.liveJournal ?? [])];
    const events = frames.map((value) => checked(value, this.session.sessionId));
    let record: LoadedRecord | undefined;
    if (body.recordingDegraded !== undefined) {
      record = { recordingDegraded: body.recordingDegraded };
      if (body.recordingState !== undefined) record.recordingState = body.recordingState;
    }
    this.session = load(this.session, events, body.lastEventId, body.eventEpoch, record);
  }
}
