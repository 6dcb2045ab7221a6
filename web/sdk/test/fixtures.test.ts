/** The contract between the two SDKs: `spec/fixtures`, which both match byte for byte. */

import { strict as assert } from 'node:assert';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';

import { InvalidFrame, canonical, newSession, view } from '../src/index.js';
import { Player, type Fixture } from './player.js';

const FOLDER = new URL('../../../../spec/fixtures/', import.meta.url);

for (const name of readdirSync(FOLDER).filter((name) => name.endsWith('.json'))) {
  test(`fixture ${name}`, () => {
    const fixture = JSON.parse(readFileSync(new URL(name, FOLDER), 'utf8')) as Fixture;
    const player = new Player(newSession(fixture.sessionId));
    player.play(fixture.snapshotsAndEventsInOrder);
    assert.equal(canonical(player.session), canonical(fixture.state));
    assert.equal(canonical(view(player.session)), canonical(fixture.view));
    assert.equal(canonical(player.invalid), canonical(fixture.invalid));
  });
}

test('an invalid frame names its field in words', () => {
  const error = new InvalidFrame({ code: 'field', kind: 'turn_complete', field: 'promptId' });
  assert.equal(error.message, 'turn_complete: promptId is not what it must be');
});
