"""Codex: `codex exec --json`, one turn in a new session (as of codex 0.169).

Its tool commands run in sessions of their own; ending what descends from us ends them.
Items of type `error` are warnings, and events of type `error` retries: `turn.failed`
alone is a failure. A turn that is killed tells no usage; the session's file does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
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
from autoexp_tui.agents.foreign_files import read_foreign
from autoexp_tui.model.agents import Usage

_NO_STEPS: Final = frozenset({"agent_message", "reasoning", "error", "todo_list"})
"""Items that are no use of a tool."""
_SANDBOXES: Final = {"full": "danger-full-access"}
_MOST_SESSIONS: Final = 100
_MOST_SESSION_BYTES: Final = 256 << 20


def build_command(request: Request, schema_path: str) -> tuple[str, ...]:
    agent = request.agent
    sandbox = "full" if request.is_isolated else agent.sandbox
    words = [*(agent.command or ("codex",)), "exec", "--json", "--skip-git-repo-check"]
    words += ["--sandbox", _SANDBOXES.get(sandbox, sandbox)]
    words += ["--model", agent.model] if agent.model else []
    words += ["--output-schema", schema_path] if schema_path else []
    return (*words, "-")


def read_event(event: Event, progress: Progress) -> None:
    match event.get("type"):
        case "item.started" | "item.completed":
            progress.complaint = ""  # it got over it
            item = get_tree(event, "item")
            if item.get("type") == "agent_message":
                progress.say(get_text(item, "text"))
            elif item.get("type") not in _NO_STEPS:
                progress.add_step(get_text(item, "id"))
        case "error":
            progress.complaint = get_text(event, "message")
        case "turn.completed":
            progress.usage = _read_usage(get_tree(event, "usage"))
            progress.end()
        case "turn.failed":
            message = get_text(get_tree(event, "error"), "message")
            progress.end(message or progress.complaint or "the turn failed")


def _read_usage(tree: Event) -> Usage:
    return Usage(
        input_tokens=get_count(tree, "input_tokens"),
        cached_tokens=get_count(tree, "cached_input_tokens"),
        cache_write_tokens=get_count(tree, "cache_write_input_tokens"),
        output_tokens=get_count(tree, "output_tokens"),
    )


def restore_usage(home: Path) -> Usage | None:
    """The sum over the sessions of one call: each file has its totals until its end."""
    paths = home.glob(".codex/sessions/*/*/*/rollout-*.jsonl")
    last = (list(_read_totals(path))[-1:] for path in islice(paths, _MOST_SESSIONS))
    found = [usage for totals in last for usage in totals]
    return sum(found, Usage()) if found else None


def _read_totals(path: Path) -> Iterator[Usage]:
    with suppress(OSError):
        for line in read_foreign(path, _MOST_SESSION_BYTES).splitlines():
            if b'"token_count"' in line:
                with suppress(ValueError, RecursionError):  # cut short by the kill
                    place = ("payload", "info", "total_token_usage")
                    if total := get_tree(json.loads(line), *place):
                        yield _read_usage(total)


CODEX: Final = Backend(
    build_command=build_command, read_event=read_event, restore_usage=restore_usage
)
