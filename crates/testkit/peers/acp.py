"""Drives the published Python SDK of ACP as a client does, and prints what its user sees.

Arguments, scenarios and lines are those of `acp.mjs`, but for the folder, which Python does not need,
and for the scenario `withdraw`, which this SDK cannot play.
The SDK's hook for extensions hears names that begin with `_` only; others are heard by an observer.
"""

import asyncio
import json
import os
import sys

import acp
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

DEADLINE_S = 60
# What an observer reports: the hook for extensions never hears it.
UNHEARD = "qwen/"

scenario, arguments = sys.argv[1:]
arguments = json.loads(arguments)
cwd = arguments["cwd"]


def say(line):
    print(json.dumps(line), flush=True)


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Client:
    def __init__(self):
        # The first part of an answer is where the user loses patience.
        self.part = asyncio.Event()

    async def request_permission(self, session_id, tool_call, options, **meta):
        options = [plain(option) for option in options]
        asked = {"sessionId": session_id, "toolCall": plain(tool_call), "options": options}
        say({"asked": asked})
        if arguments.get("answer") == "never":
            self.part.set()
            await asyncio.Event().wait()
        for option in options:
            if option["kind"] == arguments.get("answer"):
                outcome = AllowedOutcome(outcome="selected", option_id=option["optionId"])
                return RequestPermissionResponse(outcome=outcome)
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    async def session_update(self, session_id, update, **meta):
        update = plain(update)
        say({"update": {"sessionId": session_id, "update": update}})
        if update["sessionUpdate"] == "agent_message_chunk":
            self.part.set()


class CuriousClient(Client):
    async def ext_notification(self, method, params):
        say({"notified": {"method": f"_{method}", "params": params}})


def observe(event):
    method = event.message.get("method", "")
    if event.direction.value == "incoming" and method.startswith(UNHEARD):
        say({"notified": {"method": method, "params": event.message["params"]}})


async def open_session(agent):
    if scenario == "load":
        return await agent.load_session(cwd=cwd, session_id=arguments["sessionId"], mcp_servers=[])
    if scenario == "resume":
        return await agent.resume_session(
            cwd=cwd, session_id=arguments["sessionId"], mcp_servers=[]
        )
    return await agent.new_session(cwd=cwd, mcp_servers=[])


async def change_settings(agent, session_id):
    mode = arguments["mode"]
    say({"set": plain(await agent.set_session_mode(session_id=session_id, mode_id=mode))})
    for config_id, value in arguments["options"].items():
        answer = await agent.set_config_option(
            config_id=config_id, session_id=session_id, value=value
        )
        say({"set": plain(answer)})


async def converse(client, agent):
    say({"initialized": plain(await agent.initialize(protocol_version=acp.PROTOCOL_VERSION))})
    opened = await open_session(agent)
    say({"opened": plain(opened)})
    session_id = arguments.get("sessionId") or opened.session_id
    if scenario == "settings":
        await change_settings(agent, session_id)
    cancels = scenario == "cancel"
    for text in arguments["prompts"]:
        prompt = [acp.text_block(text)]
        answer = asyncio.create_task(agent.prompt(session_id=session_id, prompt=prompt))
        if cancels:
            cancels = False
            # A task begins where another waits.
            await (asyncio.sleep(0) if arguments.get("hasty") else client.part.wait())
            await agent.cancel(session_id=session_id)
            say({"cancelled": True})
        say({"answer": plain(await answer)})
    if scenario == "settings":
        say({"listed": plain(await agent.list_sessions(cwd=cwd))})


async def run():
    is_plain = arguments.get("plain", False)
    client = Client() if is_plain else CuriousClient()
    async with acp.spawn_agent_process(
        client,
        *arguments["command"],
        env=os.environ,
        transport_kwargs={"stderr": None},
        observers=[] if is_plain else [observe],
    ) as (agent, process):
        await converse(client, agent)
    if process.returncode != 0:
        raise RuntimeError(f"the agent ended with {process.returncode}")


async def main():
    try:
        await asyncio.wait_for(run(), DEADLINE_S)
        say({"done": True, "error": None})
    except asyncio.TimeoutError:
        say({"done": True, "error": "the scenario did not end in time"})
    except Exception as error:
        detail = getattr(error, "data", None)
        say({"done": True, "error": f"{type(error).__name__}: {error} {json.dumps(detail)}"})


asyncio.run(main())
