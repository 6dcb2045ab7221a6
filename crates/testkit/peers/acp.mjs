// Drives the published TypeScript SDK of ACP as a client does, and prints what its user sees, one JSON
// object a line:
// {"initialized": …}   the answer to `initialize`
// {"opened": …}        the answer to `session/new`, `session/load` or `session/resume`
// {"update": …}        a `session/update`, with its session
// {"asked": …}         a permission request
// {"notified": {method, params}}  a notification that the SDK has no type for
// {"set": …}           the answer to a change of a setting
// {"listed": …}        the answer to `session/list`
// {"cancelled": true}  the cancellation is sent
// {"answer": …}        the answer to a prompt
// {"done": true, "error": null or text}, the last line
// What the agent says on its standard error comes out on ours.
//
// Arguments: a folder that has the SDK, a scenario, and a JSON object:
//   command    the agent and its arguments
//   cwd        of the session
//   sessionId  of a stored session
//   prompts    what the user says, each once the one before it is answered
//   answer     the kind of the option that permission requests are answered with; "never" leaves
//              them without an answer; absent: cancelled
//   hasty      the scenario `cancel` waits for nothing
//   plain      the client has no handler for what it does not know
//   mode, options   what the scenario `settings` sets
//
// | scenario | is                                                                           |
// | new      | a new session and its prompts                                                |
// | load     | a stored session, loaded, and its prompts                                    |
// | resume   | a stored session, resumed, and its prompts                                   |
// | cancel   | a new session whose first prompt is cancelled, once a part of its answer or  |
// |          | a question came that is never answered                                       |
// | withdraw | as cancel, by taking the request back                                        |
// | settings | a new session with settings changed before its prompts, then a list of all   |
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";

const [folder, scenario, json] = process.argv.slice(1);
const path = createRequire(`${folder}/`).resolve("@agentclientprotocol/sdk");
const acp = await import(path);
const { agent: to, client: from } = acp.methods;

const DEADLINE_MS = 60_000;
const { command, cwd, sessionId, prompts, answer, hasty, plain, mode, options } = JSON.parse(json);

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const end = (error) =>
  process.stdout.write(`${JSON.stringify({ done: true, error })}\n`, () => process.exit());
setTimeout(() => end("the scenario did not end in time"), DEADLINE_MS).unref();

// The first part of an answer is where the user loses patience.
let onPart;
const part = new Promise((resolve) => (onPart = resolve));

function decide({ params }) {
  say({ asked: params });
  if (answer === "never") {
    onPart();
    return new Promise(() => {});
  }
  const option = params.options.find((option) => option.kind === answer);
  return {
    outcome: option
      ? { outcome: "selected", optionId: option.optionId }
      : { outcome: "cancelled" },
  };
}

function heard({ params }) {
  say({ update: params });
  if (params.update.sessionUpdate === "agent_message_chunk") {
    onPart();
  }
}

const app = acp
  .client({ name: "driver" })
  .onRequest(from.session.requestPermission, decide)
  .onNotification(from.session.update, heard);
if (!plain) {
  app.onNotification("*", ({ method, params }) => say({ notified: { method, params } }));
}

const open = (agent) => {
  const request = { cwd, mcpServers: [] };
  switch (scenario) {
    case "load":
      return agent.request(to.session.load, { ...request, sessionId });
    case "resume":
      return agent.request(to.session.resume, { ...request, sessionId });
    default:
      return agent.request(to.session.new, request);
  }
};

async function converse(agent) {
  const initialized = await agent.request(to.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {},
  });
  say({ initialized });
  const opened = await open(agent);
  say({ opened });
  const session = { sessionId: opened.sessionId ?? sessionId };
  if (scenario === "settings") {
    say({ set: await agent.request(to.session.setMode, { ...session, modeId: mode }) });
    for (const [configId, value] of Object.entries(options)) {
      const request = { ...session, configId, value };
      say({ set: await agent.request(to.session.setConfigOption, request) });
    }
  }
  let cancels = scenario === "cancel" || scenario === "withdraw";
  for (const text of prompts) {
    const request = { ...session, prompt: [{ type: "text", text }] };
    const patience = new AbortController();
    const withdrawal = { cancellationSignal: patience.signal };
    const answered = agent.request(to.session.prompt, request, withdrawal);
    if (cancels) {
      cancels = false;
      await (hasty || part);
      if (scenario === "cancel") {
        await agent.notify(to.session.cancel, session);
      } else {
        patience.abort();
      }
      say({ cancelled: true });
    }
    say({ answer: await answered });
  }
  if (scenario === "settings") {
    say({ listed: await agent.request(to.session.list, { cwd }) });
  }
}

const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((resolve) => child.on("close", resolve));
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
app
  .connectWith(stream, converse)
  .then(async () => {
    child.stdin.end();
    const code = await ended;
    end(code === 0 ? null : `the agent ended with ${code}`);
  })
  .catch((error) => end(`${error} ${JSON.stringify(error.data ?? null)}`));
