/** The daemon's client: requests with typed errors, and a session that is followed however often its stream is
 * cut. Works where `fetch` is, in browsers and in Node. */

import { createParser } from 'eventsource-parser';

import type { Event } from './event.js';
import { apply, dismissNotice, load, type LoadedRecord } from './reduce.js';
import { newSession, type Session } from './state.js';
import { InvalidFrame, checked, frame } from './validate.js';

/** A stream without a byte for this long is dead; the daemon says something every 15 s. In ms. */
export const SILENCE_MAX_MS = 45_000;

/** Bytes of an answer that is taken; the history of a long session comes in one. */
export const ANSWER_BYTES_MAX = 96 * 1024 * 1024;

/** How long an answer is waited for, in ms: longer than a daemon takes to bring a session back. */
export const ANSWER_WAIT_MS = 90_000;

/** Characters of one event that are taken. */
const EVENT_CHARS_MAX = 16 * 1024 * 1024;

/** The first and the longest wait before a stream is opened again, in ms. */
export const RETRY_FIRST_MS = 250;
export const RETRY_MAX_MS = 30_000;

/** Frames that may wait for this client at the daemon. */
const QUEUE_FRAMES = 2048;

/** Where the daemon is, and who asks. */
export interface ClientOptions {
  /** Such as `http://127.0.0.1:4170`. */
  url: string;
  /** What the daemon wants to see; absent where it wants nothing. */
  token?: string;
  /** In place of the platform's. */
  fetch?: typeof globalThis.fetch;
}

/** An answer of the daemon that says why there is none. */
export class DaemonError extends Error {
  override name = 'DaemonError';

  constructor(
    /** The HTTP status. */
    readonly status: number,
    /** For programs; absent where there is none. */
    readonly code: string | undefined,
    message: string,
    /** Whole. */
    readonly body: Record<string, unknown>,
    /** When it may be tried again, in ms. */
    readonly retryAfterMs: number | undefined,
  ) {
    super(message);
  }
}

/** The daemon did not answer. */
export class Unreachable extends Error {
  override name = 'Unreachable';
}

/** An answer to a create, load or resume. */
export interface Opened {
  sessionId: string;
  workspaceCwd: string;
  attached: boolean;
  clientId: string;
  createdAt: string;
  hasActivePrompt?: boolean;
  /** Absent where the daemon does not say it. */
  recordingDegraded?: boolean;
  recordingState?: Session['recordingState'];
}

/** A row of a list of sessions. */
export interface Row extends Record<string, unknown> {
  sessionId: string;
  displayName?: string;
  updatedAt?: string;
  isArchived: boolean;
  hasActivePrompt: boolean;
  recordingDegraded?: boolean;
  recordingState?: Session['recordingState'];
}

/** A prompt that was taken. */
export interface Accepted {
  promptId: string;
  lastEventId: number;
  eventEpoch: string;
}

/** A daemon. */
export class Client {
  readonly #url: string;
  readonly #token: string | undefined;
  readonly #fetch: typeof globalThis.fetch;

  constructor(options: ClientOptions) {
    this.#url = options.url.replace(/\/+$/, '');
    this.#token = options.token;
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
  }

  /** What the daemon can do.
   * @throws {DaemonError | Unreachable} */
  capabilities(signal?: AbortSignal): Promise<Record<string, unknown>> {
    return this.request('GET', '/capabilities', undefined, signal);
  }

  /** Begins a session, or attaches to the shared one of the workspace (`sessionScope: 'single'`).
   * @throws {DaemonError | Unreachable} */
  create(wish: Record<string, unknown> = { sessionScope: 'thread' }, signal?: AbortSignal): Promise<Opened> {
    return this.request('POST', '/session', wish, signal);
  }

  /** A page of the sessions of a workspace, by its id or folder.
   * @throws {DaemonError | Unreachable} */
  list(
    workspace: string,
    query: Record<string, string> = {},
    signal?: AbortSignal,
  ): Promise<{ sessions: Row[]; nextCursor?: string }> {
    const words = new URLSearchParams(query).toString();
    const path = `/workspace/${encodeURIComponent(workspace)}/sessions${words && `?${words}`}`;
    return this.request('GET', path, undefined, signal);
  }

  /** A request of one session.
   * @throws {DaemonError | Unreachable} */
  ofSession<T>(
    method: string,
    sessionId: string,
    path: string,
    body?: unknown,
    clientId?: string,
    signal?: AbortSignal,
  ): Promise<T> {
    const headers: Record<string, string> = clientId === undefined ? {} : { 'x-qwen-client-id': clientId };
    return this.request(method, `/session/${encodeURIComponent(sessionId)}${path}`, body, signal, headers);
  }

  /** A request; the body of its answer.
   * @throws {DaemonError | Unreachable} */
  async request<T>(
    method: string,
    path: string,
    body?: unknown,
    signal?: AbortSignal,
    headers: Record<string, string> = {},
  ): Promise<T> {
    const response = await this.#send(path, {
      method,
      headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: signal ? AbortSignal.any([signal, AbortSignal.timeout(ANSWER_WAIT_MS)]) : AbortSignal.timeout(ANSWER_WAIT_MS),
    });
    const answer = parsed(await whole(response));
    if (response.ok) return (answer ?? {}) as T;
    throw refused(response, answer);
  }

  /** The bytes of a stream of events.
   * @throws {DaemonError | Unreachable} */
  async open(
    sessionId: string,
    after: number,
    epoch: string | undefined,
    signal: AbortSignal,
  ): Promise<ReadableStream<Uint8Array>> {
    const path = `/session/${encodeURIComponent(sessionId)}/events?snapshot=1&maxQueued=${QUEUE_FRAMES}`;
    const headers: Record<string, string> = { accept: 'text/event-stream', 'last-event-id': String(after) };
    if (epoch !== undefined) headers['x-qwen-event-epoch'] = epoch;
    const response = await this.#send(path, { headers, signal });
    if (!response.ok) throw refused(response, parsed(await whole(response)));
    if (!response.body) throw new Unreachable('the daemon answered without a stream');
    return response.body;
  }

  async #send(path: string, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.#token !== undefined) headers.set('authorization', `Bearer ${this.#token}`);
    try {
      return await this.#fetch(`${this.#url}${path}`, { ...init, headers });
    } catch (cause) {
      if (init.signal?.aborted && !isTimeout(init.signal.reason)) throw cause;
      throw new Unreachable('the daemon cannot be reached', { cause });
    }
  }

  /** Follows a session until it ends or `signal` fires. */
  follow(sessionId: string, options: FollowOptions = {}): Follower {
    return new Follower(this, sessionId, options);
  }
}

/** How a session is followed. */
export interface FollowOptions {
  /** Called after every change, with the session as it is then. */
  onChange?: (session: Session) => void;
  /** Called with each frame that does not count. */
  onInvalid?: (error: InvalidFrame) => void;
  /** Called when the connection comes and goes. */
  onConnection?: (state: 'connecting' | 'open' | 'waiting') => void;
  /** Ends it. */
  signal?: AbortSignal;
  /** In place of {@link SILENCE_MAX_MS}. */
  silenceMaxMs?: number;
  /** In place of {@link RETRY_FIRST_MS}. */
  retryFirstMs?: number;
}

interface LoadAnswer extends Opened {
  compactedReplay?: unknown[];
  liveJournal?: unknown[];
  lastEventId: number;
  eventEpoch: string;
}

/** A session that is followed: its state survives cut streams, resyncs and a daemon that starts anew. */
export class Follower {
  /** The session as it is now; its fields are changed in place. */
  session: Session;
  /** Who we are in it; known once it is loaded. */
  clientId: string | undefined;
  /** Ends with the session, or with the signal.
   * @throws {DaemonError} The session is not there, or we may not see it.
   * @throws {Unreachable} The daemon could not be reached at all; once it was, it is tried for ever. */
  readonly done: Promise<void>;
  readonly #client: Client;
  readonly #options: FollowOptions;
  readonly #stop = new AbortController();
  readonly #waiting = new Set<() => boolean>();

  constructor(client: Client, sessionId: string, options: FollowOptions) {
    this.#client = client;
    this.#options = options;
    this.session = newSession(sessionId);
    const { signal } = options;
    if (signal?.aborted) this.#stop.abort();
    signal?.addEventListener('abort', () => this.#stop.abort(), { once: true });
    this.done = this.#run();
  }

  /** Waits until the session is as `is` says, now or after a change.
   * @throws {DaemonError | Unreachable} As {@link Follower.done}.
   * @throws {Error} It ended before. */
  until(is: (session: Session) => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = (): boolean => {
        if (!is(this.session)) return false;
        resolve();
        return true;
      };
      if (look()) return;
      this.#waiting.add(look);
      const ended = (): void => reject(new Error('the session ended before'));
      this.done.then(ended, reject);
    });
  }

  /** Ends it; the session goes on. */
  stop(): void {
    this.#stop.abort();
  }

  /** Says something; its outcome comes as a change.
   * @throws {DaemonError | Unreachable} */
  prompt(text: string): Promise<Accepted> {
    return this.#ask('POST', '/prompt', { prompt: [{ type: 'text', text }] });
  }

  /** Cancels the running turn. */
  cancel(): Promise<unknown> {
    return this.#ask('POST', '/cancel', {});
  }

  /** Votes about a question; without an option it is cancelled. */
  vote(requestId: string, optionId?: string): Promise<unknown> {
    const outcome = optionId === undefined ? { outcome: 'cancelled' } : { outcome: 'selected', optionId };
    return this.#ask('POST', `/permission/${encodeURIComponent(requestId)}`, { outcome });
  }

  /** Switches the model. */
  setModel(modelId: string): Promise<unknown> {
    return this.#ask('POST', '/model', { modelId });
  }

  /** Sets the approval mode. */
  setApprovalMode(mode: string): Promise<unknown> {
    return this.#ask('POST', '/approval-mode', { mode });
  }

  /** Names the session; `persisted: false` where the name is not in its record. */
  rename(displayName: string): Promise<{ displayName?: string; persisted?: boolean }> {
    return this.#ask('PATCH', '/metadata', { displayName });
  }

  /** Closes the session for everybody. */
  close(): Promise<unknown> {
    return this.#ask('DELETE', '');
  }

  /** The person has read the notice about the record. */
  dismissNotice(): void {
    dismissNotice(this.session);
    this.#changed();
  }

  #ask<T>(method: string, path: string, body?: unknown): Promise<T> {
    return this.#client.ofSession(method, this.session.sessionId, path, body, this.clientId);
  }

  async #run(): Promise<void> {
    let failures = 0;
    let isLoaded = false;
    let wasLoaded = false;
    while (!this.#stop.signal.aborted && !this.session.ending) {
      this.#options.onConnection?.('connecting');
      try {
        if (!isLoaded || this.session.isResyncPending) {
          await this.#load();
          isLoaded = true;
          wasLoaded = true;
        }
        await this.#stream(() => {
          failures = 0;
        });
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        if (!wasLoaded) throw error;
        if (error instanceof DaemonError && isFinal(error)) {
          // A session that we had and the daemon does not know died with it; it may be there to load.
          if (!isLoaded || error.code !== 'session_not_found') throw error;
          isLoaded = false;
          this.session.isResyncPending = true;
        }
      }
      if (this.#stop.signal.aborted || this.session.ending) return;
      if (this.session.isResyncPending && failures === 0) {
        failures = 1;
        continue;
      }
      this.#options.onConnection?.('waiting');
      failures += 1;
      await this.#wait(failures);
    }
  }

  async #load(): Promise<void> {
    const { sessionId } = this.session;
    const signal = this.#stop.signal;
    const answer = await this.#client.ofSession<LoadAnswer>('POST', sessionId, '/load', {}, undefined, signal);
    const events: Event[] = [];
    for (const value of [...(answer.compactedReplay ?? []), ...(answer.liveJournal ?? [])]) {
      const event = this.#checked(() => checked(value, sessionId));
      if (event) events.push(event);
    }
    let record: LoadedRecord | undefined;
    if (typeof answer.recordingDegraded === 'boolean') {
      record = { recordingDegraded: answer.recordingDegraded };
      if (answer.recordingState !== undefined) record.recordingState = answer.recordingState;
    }
    this.session = load(this.session, events, answer.lastEventId, answer.eventEpoch, record);
    this.clientId = answer.clientId;
    this.#changed();
  }

  async #stream(onOpen: () => void): Promise<void> {
    // A signal that has fired is not heard again.
    if (this.#stop.signal.aborted) return;
    const cut = new AbortController();
    const onStop = (): void => cut.abort();
    this.#stop.signal.addEventListener('abort', onStop, { once: true });
    const silenceMax = this.#options.silenceMaxMs ?? SILENCE_MAX_MS;
    let silence = setTimeout(onStop, silenceMax);
    try {
      const { sessionId, lastEventId, epoch } = this.session;
      const body = await this.#client.open(sessionId, lastEventId, epoch, cut.signal);
      onOpen();
      this.#options.onConnection?.('open');
      const parser = createParser({ onEvent: ({ data }) => this.#take(data) });
      let nPending = 0;
      const decoder = new TextDecoder();
      const reader = body.getReader();
      try {
        for (;;) {
          const { done, value } = await reader.read();
          if (done) return;
          clearTimeout(silence);
          silence = setTimeout(onStop, silenceMax);
          // An event without an end is no event.
          nPending = value.includes(NEWLINE) ? 0 : nPending + value.length;
          if (nPending > EVENT_CHARS_MAX) return;
          parser.feed(decoder.decode(value, { stream: true }));
          this.#changed();
          if (this.session.isResyncPending || this.session.ending) return;
        }
      } finally {
        await reader.cancel().catch(() => undefined);
      }
    } finally {
      clearTimeout(silence);
      this.#stop.signal.removeEventListener('abort', onStop);
      cut.abort();
    }
  }

  #take(data: string): void {
    const event = this.#checked(() => frame(data, this.session.sessionId));
    if (event) apply(this.session, event);
  }

  #checked(check: () => Event): Event | undefined {
    try {
      return check();
    } catch (error) {
      if (!(error instanceof InvalidFrame)) throw error;
      this.#options.onInvalid?.(error);
      return undefined;
    }
  }

  #changed(): void {
    for (const look of this.#waiting) {
      if (look()) this.#waiting.delete(look);
    }
    this.#options.onChange?.(this.session);
  }

  /** A wait that doubles, with a part of chance, so that many clients do not come back at once. */
  #wait(failures: number): Promise<void> {
    const first = this.#options.retryFirstMs ?? RETRY_FIRST_MS;
    const longest = Math.min(first * 2 ** (failures - 1), RETRY_MAX_MS);
    const wait = longest * (0.5 + Math.random() / 2);
    return new Promise((resolve) => {
      const over = (): void => {
        clearTimeout(timer);
        this.#stop.signal.removeEventListener('abort', over);
        resolve();
      };
      const timer = setTimeout(over, wait);
      this.#stop.signal.addEventListener('abort', over, { once: true });
    });
  }
}

const NEWLINE = 10;

/** The body of an answer, unless it is larger than any that a daemon gives. */
async function whole(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  if (!reader) return '';
  const decoder = new TextDecoder();
  let text = '';
  let nBytes = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return text + decoder.decode();
      nBytes += value.length;
      if (nBytes > ANSWER_BYTES_MAX) throw new Unreachable('the answer is larger than any of a daemon');
      text += decoder.decode(value, { stream: true });
    }
  } catch (cause) {
    if (cause instanceof Unreachable) throw cause;
    throw new Unreachable('the answer ended early', { cause });
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function isTimeout(reason: unknown): boolean {
  return reason instanceof Error && reason.name === 'TimeoutError';
}

/** Whether trying again is no use. */
function isFinal(error: DaemonError): boolean {
  return error.status >= 400 && error.status < 500 && error.status !== 408 && error.status !== 429;
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function refused(response: Response, body: Record<string, unknown> | undefined): DaemonError {
  const code = body?.['code'];
  const message = body?.['error'];
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN);
  return new DaemonError(
    response.status,
    code === undefined ? undefined : String(code),
    typeof message === 'string' ? message : `HTTP ${response.status}`,
    body ?? {},
    Number.isFinite(seconds) ? seconds * 1000 : undefined,
  );
}
