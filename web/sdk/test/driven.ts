/** Driven by the property test of the Rust SDK: plays the steps of each line, and answers with what became of
 * them, a line for a line. */

import { createInterface } from 'node:readline';

import { canonical, newSession, view } from '../src/index.js';
import { Player, type Step } from './player.js';

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const { sessionId, steps } = JSON.parse(line) as { sessionId: string; steps: Step[] };
  const player = new Player(newSession(sessionId));
  player.play(steps);
  const told = { state: player.session, view: view(player.session), invalid: player.invalid };
  process.stdout.write(`${canonical(told)}\n`);
}
