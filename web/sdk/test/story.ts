/** A turn, a question, a name, a lost record and a close, as a client of a real daemon sees them. Driven by a test
 * that holds the daemon: it is told a word a line what has been reached, and says by a line that it may go on. */

import assert from 'node:assert/strict';
import { createInterface } from 'node:readline';

import { Client, DaemonError, view, type Follower, type Session } from '../src/index.js';

const [url = '', question = ''] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function reached(word: string): Promise<void> {
  process.stdout.write(`${word}\n`);
  await lines.next();
}

function followed(client: Client, id: string): Follower {
  const onInvalid = (error: Error): void => {
    throw error;
  };
  return client.follow(id, { onInvalid });
}

function ended(promptId: string): (session: Session) => boolean {
  return (session) => session.lastTurn?.promptId === promptId;
}

const client = new Client({ url });
const { sessionId } = await client.create({ sessionScope: 'thread', approvalMode: 'default' });
const follower = followed(client, sessionId);
await follower.until((session) => session.epoch !== undefined);

await follower.until(ended((await follower.prompt('hello')).promptId));
const texts = follower.session.items.map((item) => (item.type === 'message' ? item.text : ''));
assert.deepEqual(texts, ['hello', 'hello world hello world ']);
assert.equal(view(follower.session).recording.degraded, false);

const asked = await follower.prompt(question);
await follower.until((session) => session.permissions.length > 0);
assert.equal(view(follower.session).status, 'waiting');
await follower.vote(follower.session.permissions[0]?.requestId ?? '', 'proceed_once');
await follower.until(ended(asked.promptId));

await follower.rename('a name');
await follower.until((session) => session.title === 'a name');
const { workspaceCwd } = await client.capabilities();
const { sessions } = await client.list(String(workspaceCwd));
assert.ok(sessions.some((row) => row.sessionId === sessionId));

await reached('saved');
await follower.until(ended((await follower.prompt('lost')).promptId));
await reached('lost');
const { notices } = view(follower.session);
if (follower.session.recordingDegraded) {
  assert.deepEqual(notices.map(({ id }) => id), [`daemon.session_recording_degraded:${sessionId}`]);
  const late = followed(client, sessionId);
  await late.until((session) => session.recordingDegraded);
  assert.deepEqual(view(late.session).notices, notices);
  late.stop();
  await late.done;
}
process.stdout.write(`${follower.session.recordingDegraded ? 'degraded' : 'not degraded'}\n`);

await follower.close();
await follower.done;
assert.equal(view(follower.session).status, 'ended');
const nobody = client.follow('00000000-0000-4000-8000-000000000000').done;
await assert.rejects(nobody, (error) => error instanceof DaemonError && error.status === 404);
process.stdout.write('ended\n');
lines.return?.();
process.stdin.destroy();
