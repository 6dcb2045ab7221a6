// Drives the published TypeScript SDK as its users do, and prints what they see, one JSON object a line:
// {"message": …}    what the SDK yields
// {"asked": …}      a call of the permission callback
// {"called": …}     a call of the SDK's own MCP tool
// {"interrupted": true}  interrupt() has returned
// {"done": true, "error": null or text}, the last line
// What the command line says on its standard error comes out on ours.
//
// Arguments: a folder that has the SDK, the executable, a scenario, and a JSON object:
//   prompts   what the user says; in a session each prompt waits for the result before it
//   options   model, permissionMode, sessionId, resume, partial, callbackMs
//   answer    what the permission callback answers; null: never; absent: there is no callback
//
// | scenario    | is                                                                           |
// | query       | one prompt, given as a string                                                |
// | session     | prompts, given as a stream                                                   |
// | interrupt   | a session whose first turn is interrupted once a part of its answer is seen  |
// | mcp         | a session with an MCP server of the SDK's own: tool `add` of server `sums`   |
import { createRequire } from "node:module";

const [folder, executable, scenario, json] = process.argv.slice(1);
const sdk = createRequire(`${folder}/`);
const { createSdkMcpServer, query, tool } = sdk("@qwen-code/sdk");
const { z } = createRequire(sdk.resolve("@qwen-code/sdk"))("zod");

const DEADLINE_MS = 60_000;
const { prompts, options = {}, answer } = JSON.parse(json);

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const end = (error) =>
  process.stdout.write(`${JSON.stringify({ done: true, error })}\n`, () => process.exit());
setTimeout(() => end("the scenario did not end in time"), DEADLINE_MS).unref();

// Each result lets the next prompt go out.
const results = [];
const waiting = [];
const onResult = () => (waiting.shift() ?? (() => results.push(true)))();
const nextResult = () =>
  results.pop() ? undefined : new Promise((resolve) => waiting.push(resolve));

async function* stream() {
  for (const content of prompts) {
    yield {
      type: "user",
      session_id: "",
      message: { role: "user", content },
      parent_tool_use_id: null,
    };
    await nextResult();
  }
}

async function canUseTool(tool, input) {
  say({ asked: { tool, input } });
  return answer ?? new Promise(() => {});
}

const add = tool("add", "Adds two numbers", { a: z.number(), b: z.number() }, async (numbers) => {
  say({ called: numbers });
  return { content: [{ type: "text", text: `the sum is ${numbers.a + numbers.b}` }] };
});

async function main() {
  const { partial, callbackMs, ...passed } = options;
  const conversation = query({
    prompt: scenario === "query" ? prompts[0] : stream(),
    options: {
      ...passed,
      pathToQwenExecutable: executable,
      includePartialMessages: partial ?? scenario === "interrupt",
      timeout: callbackMs && { canUseTool: callbackMs },
      // The SDK passes standard error on as messages of this level, among its own.
      logLevel: "debug",
      stderr: (message) => process.stderr.write(`${message}\n`),
      ...(answer !== undefined && { canUseTool }),
      ...(scenario === "mcp" && {
        mcpServers: { sums: createSdkMcpServer({ name: "sums", tools: [add] }) },
      }),
    },
  });
  let interrupts = scenario === "interrupt" ? 1 : 0;
  for await (const message of conversation) {
    say({ message });
    if (message.type === "result") {
      onResult();
    } else if (interrupts > 0 && message.event?.type === "content_block_delta") {
      interrupts -= 1;
      await conversation.interrupt();
      say({ interrupted: true });
    }
  }
}

main().then(
  () => end(null),
  (error) => end(String(error)),
);
