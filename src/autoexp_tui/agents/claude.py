"""Claude Code: `claude -p` with stream-json, without the user's settings, servers and
commands (by its documentation, 2.1).

Its own limit of turns counts otherwise than we count steps, and is left alone. A denied
use of a tool is no failure; `is_error` and the exit status are.
"""

from __future__ import annotations

import json
from typing import Final

from autoexp_tui.agents.backend import (
    Backend,
    Event,
    Progress,
    get_count,
    get_text,
    get_tree,
)
from autoexp_tui.agents.call import Request
from autoexp_tui.model.agents import Usage

_PERMISSIONS: Final = {
    "read-only": ("dontAsk", "--tools", "Read,Grep,Glob"),
    "workspace-write": ("acceptEdits",),
    "full": ("bypassPermissions",),
}
_CLEAN: Final = (
    *("--setting-sources", "", "--strict-mcp-config"),
    *("--disable-slash-commands", "--no-session-persistence"),
)


def build_command(request: Request, schema_path: str) -> tuple[str, ...]:
    agent = request.agent
    sandbox = "full" if request.is_isolated else agent.sandbox
    words = [*(agent.command or ("claude",)), "-p", "--output-format", "stream-json"]
    words += ["--verbose", *_CLEAN, "--permission-mode", *_PERMISSIONS[sandbox]]
    words += ["--model", agent.model] if agent.model else []
    words += ["--json-schema", json.dumps(request.schema)] if schema_path else []
    return tuple(words)


def read_event(event: Event, progress: Progress) -> None:
    match event.get("type"):
        case "assistant":
            _read_message(get_tree(event, "message"), progress)
        case "result":
            _read_result(event, progress)


def _read_message(message: Event, progress: Progress) -> None:
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        part = get_tree(block)
        if part.get("type") == "tool_use":
            progress.add_step(get_text(part, "id"))
        elif part.get("type") == "text":
            progress.say(get_text(part, "text"))
    # A message comes in several events, each with its usage until then.
    progress.seen[get_text(message, "id")] = _read_usage(get_tree(message, "usage"))


def _read_result(event: Event, progress: Progress) -> None:
    structured, text = event.get("structured_output"), get_text(event, "result")
    progress.say(text if structured is None else json.dumps(structured))
    progress.usage = _read_usage(get_tree(event, "usage"))
    cost = event.get("total_cost_usd")
    progress.cost = float(cost) if isinstance(cost, int | float) else None
    failure = text or get_text(event, "subtype") or "it tells no reason"
    progress.end(failure if event.get("is_error") else "")


def _read_usage(tree: Event) -> Usage:
    cached = get_count(tree, "cache_read_input_tokens")
    written = get_count(tree, "cache_creation_input_tokens")
    return Usage(
        input_tokens=get_count(tree, "input_tokens") + cached + written,
        cached_tokens=cached,
        cache_write_tokens=written,
        output_tokens=get_count(tree, "output_tokens"),
    )


CLAUDE: Final = Backend(build_command=build_command, read_event=read_event)
