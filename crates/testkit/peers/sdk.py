"""Drives the published Python SDK as its users do, and prints what they see.

Arguments, scenarios and lines are those of `sdk.mjs`, but for the folder, which Python does not
need, and for MCP servers, which this SDK does not have.
"""

import asyncio
import json
import sys

from qwen_code_sdk import query

DEADLINE_S = 60
# What the options are called here.
NAMES = {"permissionMode": "permission_mode", "sessionId": "session_id"}

executable, scenario, arguments = sys.argv[1:]
arguments = json.loads(arguments)
options = arguments.get("options", {})


def say(line):
    print(json.dumps(line), flush=True)


# Each result lets the next prompt go out.
results = asyncio.Queue()


async def stream():
    for content in arguments["prompts"]:
        yield {
            "type": "user",
            "session_id": "",
            "message": {"role": "user", "content": content},
            "parent_tool_use_id": None,
        }
        await results.get()


async def can_use_tool(tool, tool_input, context):
    say({"asked": {"tool": tool, "input": tool_input}})
    if arguments["answer"] is None:
        await asyncio.Event().wait()
    return arguments["answer"]


def sdk_options():
    passed = {NAMES.get(name, name): value for name, value in options.items()}
    callback_ms = passed.pop("callbackMs", None)
    passed["include_partial_messages"] = passed.pop("partial", scenario == "interrupt")
    passed["path_to_qwen_executable"] = executable
    passed["stderr"] = lambda line: print(line, file=sys.stderr, flush=True)
    if callback_ms is not None:
        passed["timeout"] = {"can_use_tool": callback_ms / 1000}
    if "answer" in arguments:
        passed["can_use_tool"] = can_use_tool
    return passed


async def converse():
    prompt = arguments["prompts"][0] if scenario == "query" else stream()
    interrupts = 1 if scenario == "interrupt" else 0
    async with query(prompt, sdk_options()) as conversation:
        async for message in conversation:
            say({"message": message})
            event = message.get("event", {}).get("type")
            if message["type"] == "result":
                results.put_nowait(True)
            elif interrupts > 0 and event == "content_block_delta":
                interrupts -= 1
                await conversation.interrupt()
                say({"interrupted": True})


async def main():
    try:
        await asyncio.wait_for(converse(), DEADLINE_S)
        say({"done": True, "error": None})
    except asyncio.TimeoutError:
        say({"done": True, "error": "the scenario did not end in time"})
    except Exception as error:
        say({"done": True, "error": f"{type(error).__name__}: {error}"})


asyncio.run(main())
