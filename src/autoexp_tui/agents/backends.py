"""How each program is called, and what its output means: arguments and parsing alone.

`codex exec --json` (as of 0.169): items of type `error` are warnings, and events of
type `error` retries; `turn.failed` alone is a failure. A turn that is killed tells no
usage; the session's file in its HOME does.

`claude -p` with stream-json (by the documentation of 2.1): without the user's settings,
servers and commands. A denied use of a tool is no failure; `is_error` and the exit
status are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

from autoexp_tui.agents.call import Request
from autoexp_tui.model.agents import BackendName, Usage
from autoexp_tui.storage.trust import read_foreign

MOST_TEXT: Final = 64 * 1024
"""Characters of a message that are kept."""
_MOST_NAME: Final = 100
_MOST_TOKENS: Final = 1 << 40
_MOST_COST: Final = 1e6
_MOST_SESSIONS: Final = 100
_MOST_SESSION_BYTES: Final = 256 << 20
Event: TypeAlias = Mapping[str, Any]
"""A line of output that is a JSON object; from outside, so of any form."""


@dataclass(slots=True)
class Progress:
    """What a program has told so far."""

    steps: set[str] = field(default_factory=set)
    """Ids of its uses of tools."""
    text: str = ""
    """Its last message."""
    has_ended: bool = False
    """Its last event came: nothing is expected of it but its exit."""
    failure: str = ""
    """What its last event says went wrong; empty: nothing did."""
    complaint: str = ""
    """Its last word, where that was of a trouble that it may yet get over."""
    usage: Usage | None = None
    cost: float | None = None
    seen: dict[str, Usage] = field(default_factory=dict)
    """Usage by message, for when no last event sums it up."""

    def say(self, text: str) -> None:
        self.text = text[:MOST_TEXT].encode("utf-8", "replace").decode()

    def add_step(self, name: str) -> None:
        self.steps.add(name[:_MOST_NAME] or f"unnamed {len(self.steps)}")

    def end(self, failure: str = "") -> None:
        self.has_ended, self.failure = True, failure[:MOST_TEXT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """What is told apart by the program that is called."""

    build_command: Callable[[Request, str], tuple[str, ...]]
    """Of a request, and the file with the schema of its last message; empty: that may
    be any text."""
    read_event: Callable[[Event, Progress], None] | None = None
    """None: its output is text for people, and no last event tells how it went."""
    restore_usage: Callable[[Path], Usage | None] = lambda home: None
    """Usage by what a program that was killed left in its HOME."""


def _get_tree(event: object, *path: str) -> Event:
    """A mapping within an event; an empty one where there is none."""
    for key in path:
        event = event.get(key) if isinstance(event, Mapping) else None
    return event if isinstance(event, Mapping) else {}


def _get_text(event: Event, key: str) -> str:
    found = event.get(key)
    return found if isinstance(found, str) else ""


def _get_count(event: Event, key: str) -> int:
    found = event.get(key)
    return found if isinstance(found, int) and 0 < found < _MOST_TOKENS else 0


def _choose_sandbox(request: Request) -> str:
    """A program's own sandbox does not start within our isolation: it is off there."""
    return "full" if request.is_isolated else request.agent.sandbox


# ------------------------------------------------------------------------------- codex
_NO_STEPS: Final = frozenset({"agent_message", "reasoning", "error", "todo_list"})
"""Items that are no use of a tool."""


def _build_codex(request: Request, schema_path: str) -> tuple[str, ...]:
    agent, sandbox = request.agent, _choose_sandbox(request)
    words = [*(agent.command or ("codex",)), "exec", "--json", "--skip-git-repo-check"]
    words += ["--sandbox", "danger-full-access" if sandbox == "full" else sandbox]
    words += ["--model", agent.model] if agent.model else []
    words += ["--output-schema", schema_path] if schema_path else []
    return (*words, "-")


def _read_codex(event: Event, progress: Progress) -> None:
    match event.get("type"):
        case "item.started" | "item.completed":
            progress.complaint = ""  # it got over it
            item = _get_tree(event, "item")
            if item.get("type") == "agent_message":
                progress.say(_get_text(item, "text"))
            elif item.get("type") not in _NO_STEPS:
                progress.add_step(_get_text(item, "id"))
        case "error":
            progress.complaint = _get_text(event, "message")[:MOST_TEXT]
        case "turn.completed":
            progress.usage = _read_codex_usage(_get_tree(event, "usage"))
            progress.end()
        case "turn.failed":
            message = _get_text(_get_tree(event, "error"), "message")
            progress.end(message or progress.complaint or "the turn failed")


def _read_codex_usage(tree: Event) -> Usage:
    return Usage(
        input_tokens=_get_count(tree, "input_tokens"),
        cached_tokens=_get_count(tree, "cached_input_tokens"),
        cache_write_tokens=_get_count(tree, "cache_write_input_tokens"),
        output_tokens=_get_count(tree, "output_tokens"),
    )


def _restore_codex_usage(home: Path) -> Usage | None:
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
                    if total := _get_tree(json.loads(line), *place):
                        yield _read_codex_usage(total)


# ------------------------------------------------------------------------------ claude
_PERMISSIONS: Final = {
    "read-only": ("dontAsk", "--tools", "Read,Grep,Glob"),
    "workspace-write": ("acceptEdits",),
    "full": ("bypassPermissions",),
}
_CLEAN: Final = (
    *("--setting-sources", "", "--strict-mcp-config"),
    *("--disable-slash-commands", "--no-session-persistence"),
)


def _build_claude(request: Request, schema_path: str) -> tuple[str, ...]:
    agent = request.agent
    words = [*(agent.command or ("claude",)), "-p", "--output-format", "stream-json"]
    words += ["--verbose", *_CLEAN]
    words += ["--permission-mode", *_PERMISSIONS[_choose_sandbox(request)]]
    words += ["--model", agent.model] if agent.model else []
    words += ["--json-schema", json.dumps(request.schema)] if schema_path else []
    return tuple(words)


def _read_claude(event: Event, progress: Progress) -> None:
    match event.get("type"):
        case "assistant":
            _read_message(_get_tree(event, "message"), progress)
        case "result":
            _read_result(event, progress)


def _read_message(message: Event, progress: Progress) -> None:
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        part = _get_tree(block)
        if part.get("type") == "tool_use":
            progress.add_step(_get_text(part, "id"))
        elif part.get("type") == "text":
            progress.say(_get_text(part, "text"))
    # A message comes in several events, each with its usage until then.
    name = _get_text(message, "id")[:_MOST_NAME]
    progress.seen[name] = _read_claude_usage(_get_tree(message, "usage"))


def _read_result(event: Event, progress: Progress) -> None:
    structured, text = event.get("structured_output"), _get_text(event, "result")
    progress.say(text if structured is None else json.dumps(structured))
    progress.usage = _read_claude_usage(_get_tree(event, "usage"))
    cost = event.get("total_cost_usd")
    if isinstance(cost, int | float) and 0 <= cost < _MOST_COST:
        progress.cost = float(cost)
    failure = text or _get_text(event, "subtype") or "it tells no reason"
    progress.end(failure if event.get("is_error") else "")


def _read_claude_usage(tree: Event) -> Usage:
    cached = _get_count(tree, "cache_read_input_tokens")
    written = _get_count(tree, "cache_creation_input_tokens")
    return Usage(
        input_tokens=_get_count(tree, "input_tokens") + cached + written,
        cached_tokens=cached,
        cache_write_tokens=written,
        output_tokens=_get_count(tree, "output_tokens"),
    )


# ---------------------------------------------------------------------------- scripted
def _build_scripted(request: Request, schema_path: str) -> tuple[str, ...]:
    # -P: no file of the directory it works on stands in for a module.
    program = (sys.executable, "-P", "-m", "autoexp_tui.agents.scripted")
    return (*program, request.role, *request.agent.command)


def _read_scripted(event: Event, progress: Progress) -> None:
    match event.get("type"):
        case "step":
            progress.add_step("")
        case "text":
            progress.say(_get_text(event, "text"))
        case "usage":
            names = ("input_tokens", "cached_tokens", "output_tokens")
            told = {name: _get_count(_get_tree(event, "usage"), name) for name in names}
            progress.usage = Usage(**told)
        case "result":
            progress.end(_get_text(event, "failure"))


BACKENDS: Final[Mapping[BackendName, Backend]] = {
    "scripted": Backend(build_command=_build_scripted, read_event=_read_scripted),
    "command": Backend(
        build_command=lambda request, schema_path: request.agent.command
    ),
    "codex": Backend(
        build_command=_build_codex,
        read_event=_read_codex,
        restore_usage=_restore_codex_usage,
    ),
    "claude": Backend(build_command=_build_claude, read_event=_read_claude),
}
