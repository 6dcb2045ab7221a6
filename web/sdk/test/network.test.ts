/** What becomes of a client on a bad network: a server that is played by hand. */

import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo } from 'node:net';
import { test } from 'node:test';

import { Client, DaemonError, Unreachable, view, type Session } from '../src/index.js';

const ID = '550e8400-e29b-41d4-a716-446655440000';

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

async function served<T>(handler: Handler, use: (client: Client, server: Server) => Promise<T>): Promise<T> {
  const server = createServer(handler);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  try {
    return await use(new Client({ url: `http://127.0.0.1:${port}`, token: 's3cret' }), server);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

function loaded(response: ServerResponse, lastEventId = 0): void {
  json(response, 200, { clientId: 'c', compactedReplay: [], liveJournal: [], lastEventId, eventEpoch: 'e' });
}

function chunk(id: number): string {
  const update = { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: `${id} ` } };
  const frame = { id, v: 1, type: 'session_update', data: { sessionId: ID, update } };
  return `id: ${id}\nevent: session_update\ndata: ${JSON.stringify(frame)}\n\n`;
}

function closed(id: number): string {
  const frame = { id, v: 1, type: 'session_closed', data: { sessionId: ID, reason: 'client_close' } };
  return `id: ${id}\nevent: session_closed\ndata: ${JSON.stringify(frame)}\n\n`;
}

function said(session: Session): string {
  return session.items.map((item) => (item.type === 'message' ? item.text : '')).join('');
}

function begin(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
}

test('a stream that is cut anywhere goes on where it was, without a gap and without a double', async () => {
  const events = Array.from({ length: 200 }, (_, at) => chunk(at + 1));
  events.push(closed(201));
  let nStreams = 0;
  const handler: Handler = (request, response) => {
    if (request.url?.endsWith('/load')) return loaded(response);
    assert.equal(request.headers.authorization, 'Bearer s3cret');
    nStreams += 1;
    const after = Number(request.headers['last-event-id']);
    begin(response);
    // Some events again, as after a cut in the middle of one; then a part of the rest, torn.
    const text = events.slice(Math.max(0, after - 2)).join('');
    response.end(text.slice(0, 700 + 137 * nStreams));
  };
  await served(handler, async (client) => {
    const follower = client.follow(ID, { retryFirstMs: 1 });
    await follower.done;
    const whole = Array.from({ length: 200 }, (_, at) => `${at + 1} `).join('');
    assert.equal(said(follower.session), whole);
    assert.equal(view(follower.session).status, 'ended');
    assert.ok(nStreams > 5);
  });
});

test('a silent stream is a dead one', async () => {
  let nStreams = 0;
  const handler: Handler = (request, response) => {
    if (request.url?.endsWith('/load')) return loaded(response);
    nStreams += 1;
    begin(response);
    response.write('retry: 3000\n\n');
    if (nStreams > 1) response.end(closed(1));
  };
  await served(handler, async (client) => {
    await client.follow(ID, { retryFirstMs: 1, silenceMaxMs: 30 }).done;
    assert.equal(nStreams, 2);
  });
});

test('a gap is loaded, and the stream goes on from there', async () => {
  let nLoads = 0;
  const handler: Handler = (request, response) => {
    if (request.url?.endsWith('/load')) {
      nLoads += 1;
      return loaded(response, nLoads === 1 ? 0 : 9);
    }
    begin(response);
    const after = Number(request.headers['last-event-id']);
    if (after === 0) response.end(chunk(1) + chunk(5));
    else response.end(chunk(10) + closed(11));
  };
  await served(handler, async (client) => {
    const follower = client.follow(ID, { retryFirstMs: 1 });
    await follower.done;
    assert.equal(nLoads, 2);
    assert.equal(said(follower.session), '10 ');
  });
});

test('1,000 reconnects leave nothing behind', async () => {
  let nStreams = 0;
  const handler: Handler = (request, response) => {
    if (request.url?.endsWith('/load')) return loaded(response);
    nStreams += 1;
    begin(response);
    response.end(nStreams <= 1000 ? chunk(nStreams) : closed(nStreams));
  };
  await served(handler, async (client, server) => {
    const stop = new AbortController();
    let heap = 0;
    const onChange = (): void => {
      if (nStreams === 200) heap = process.memoryUsage().heapUsed;
    };
    await client.follow(ID, { retryFirstMs: 0, signal: stop.signal, onChange }).done;
    assert.equal(nStreams, 1001);
    const grown = process.memoryUsage().heapUsed - heap;
    assert.ok(grown < 32 * 1024 * 1024, `${grown} bytes more`);
    const nTimers = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    assert.ok(nTimers < 20, `${nTimers} timers`);
    const nOpen = await new Promise<number>((resolve) => server.getConnections((_, n) => resolve(n)));
    assert.ok(nOpen < 20, `${nOpen} connections`);
  });
});

test('what was never there is told at once, what refuses is told with its code', async () => {
  const nobody = new Client({ url: 'http://127.0.0.1:9' });
  await assert.rejects(nobody.capabilities(), Unreachable);
  await assert.rejects(nobody.follow(ID).done, Unreachable);
  const refuse: Handler = (_, response) => json(response, 404, { error: 'none', code: 'session_not_found' });
  await served(refuse, async (client) => {
    await assert.rejects(client.follow(ID).done, (error) => error instanceof DaemonError && error.code === 'session_not_found');
  });
});

test('an answer without end is given up', async () => {
  const handler: Handler = (_, response) => {
    begin(response);
    const more = (): void => {
      while (response.write(Buffer.alloc(1 << 20, 32)));
      response.once('drain', more);
    };
    more();
  };
  await served(handler, async (client) => {
    await assert.rejects(client.capabilities(), Unreachable);
  });
});

test('an abort ends it, and its promise', async () => {
  const handler: Handler = (request, response) => {
    if (request.url?.endsWith('/load')) return loaded(response);
    begin(response);
    response.write(chunk(1));
  };
  await served(handler, async (client) => {
    const stop = new AbortController();
    const onChange = (session: Session): void => {
      if (said(session) !== '') stop.abort();
    };
    await client.follow(ID, { signal: stop.signal, onChange }).done;
  });
});

test('a stop right behind the load opens no stream', async () => {
  let nStreams = 0;
  const handler: Handler = (request, response) => {
    if (request.url?.endsWith('/load')) return loaded(response);
    nStreams += 1;
    begin(response);
  };
  await served(handler, async (client) => {
    const follower = client.follow(ID);
    await follower.until((session) => session.epoch !== undefined);
    follower.stop();
    await follower.done;
    assert.equal(nStreams, 0);
  });
});
