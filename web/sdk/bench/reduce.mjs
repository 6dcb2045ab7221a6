// How fast decoded events are folded, and how long a reconnect takes to a consistent state. `npm run bench`.

import { apply, frame, newSession } from '../dist/index.js';

const ID = '550e8400-e29b-41d4-a716-446655440000';
const EVENTS = 1_000_000;
const REPLAYED = 8_000;
const RUNS = 5;

/** Turns of 200 pieces of text and 10 calls of tools. */
function text(id) {
  const at = id % 223;
  const promptId = `p${Math.floor(id / 223)}`;
  const of = (type, data) => JSON.stringify({ id, v: 1, type, promptId, data: { sessionId: ID, ...data } });
  if (at === 0) return of('turn_complete', { promptId, stopReason: 'end_turn' });
  if (at === 1) return of('session_update', { update: { sessionUpdate: 'user_message_chunk', content: { type: 'text', text: 'again' } } });
  if (at % 22 === 0) return of('session_update', { update: { sessionUpdate: 'tool_call', toolCallId: `c${id}`, title: 'read', kind: 'read', status: 'pending', content: [], locations: [], rawInput: { path: 'a' } } });
  if (at % 22 === 1) return of('session_update', { update: { sessionUpdate: 'tool_call_update', toolCallId: `c${id - 1}`, status: 'completed' } });
  return of('session_update', { update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'a few words ' } } });
}

function median(run) {
  const times = Array.from({ length: RUNS }, () => {
    const began = performance.now();
    run();
    return performance.now() - began;
  });
  return times.sort((a, b) => a - b)[Math.floor(RUNS / 2)];
}

const texts = Array.from({ length: REPLAYED }, (_, at) => text(at + 1));
const replay = median(() => {
  const session = newSession(ID);
  for (const line of texts) apply(session, frame(line, ID));
});
// The same events over and over, with ids that go on, so that a million of them fit into memory.
const decoded = texts.map((line) => frame(line, ID));
const fold = median(() => {
  const session = newSession(ID);
  for (let at = 0; at < EVENTS; at += 1) {
    const event = decoded[at % REPLAYED];
    apply(session, { ...event, id: at + 1 });
  }
});
console.log(JSON.stringify({
  node: process.version,
  eventsPerSecond: Math.round((EVENTS / fold) * 1000),
  replayOf8000Ms: Math.round(replay * 10) / 10,
  replayedMegabytes: texts.reduce((sum, line) => sum + line.length, 0) / 1e6,
}));
