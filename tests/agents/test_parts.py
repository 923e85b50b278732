"""Back ends, words of failures, schemas, prices, the chain of a role."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.agents.backends import BACKENDS, Progress
from autoexp_tui.agents.call import Request
from autoexp_tui.agents.failures import find_cause, find_resumption
from autoexp_tui.agents.runner import read_line
from autoexp_tui.agents.scripted import ScriptFailed, main
from autoexp_tui.agents.supervision import Output
from autoexp_tui.model.agents import (
    AgentSpec,
    BackendName,
    Outcome,
    Prices,
    Usage,
    choose_next,
    estimate_cost,
)
from autoexp_tui.text.json_schema import find_mistake

LIMIT, AWAY, OK = Outcome.RATE_LIMIT, Outcome.UNAVAILABLE, Outcome.OK


@pytest.mark.parametrize(
    ("outcomes", "wanted"),
    [
        ((), "a"),
        ((LIMIT,), "b"),
        ((LIMIT, AWAY), "c"),
        ((LIMIT, AWAY, LIMIT), None),
        ((OK,), None),
        ((LIMIT, Outcome.AUTH_ERROR), None),
        ((Outcome.TIMEOUT,), None),
    ],
)
def test_the_next_agent_is_called_after_a_rate_limit_or_an_outage_alone(
    outcomes: Sequence[Outcome], wanted: str | None
) -> None:
    assert choose_next(("a", "b", "c"), outcomes) == wanted


def test_cached_tokens_cost_what_input_costs_unless_told() -> None:
    usage = Usage(
        input_tokens=100, cached_tokens=40, cache_write_tokens=10, output_tokens=5
    )
    both = usage + usage
    plain = Prices(input=1e6, output=2e6)
    assert estimate_cost(both, plain) == 220
    told = Prices(input=1e6, cached_input=1e5, cache_write=2e6, output=2e6)
    assert estimate_cost(usage, told) == 50 + 4 + 20 + 10


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("exceeded retry limit, last status: 429 Too Many Requests", LIMIT),
        ("Claude AI usage limit reached|1735689600", LIMIT),
        ("unexpected status 401 Unauthorized: Incorrect API key", Outcome.AUTH_ERROR),
        ("Missing environment variable: `OPENAI_API_KEY`.", Outcome.AUTH_ERROR),
        ("Invalid API key · Please run /login", Outcome.AUTH_ERROR),
        ("unexpected status 503 Service Unavailable", AWAY),
        ("API Error: 529 overloaded_error", AWAY),
        ("stream disconnected before completion: ...", AWAY),
        ("error sending request for url (http://127.0.0.1:1/v1)", AWAY),
        ("FetchError: getaddrinfo ENOTFOUND api.example.org", AWAY),
        ("AssertionError: 429 rows, 500 wanted, 401 found", Outcome.AGENT_ERROR),
        ("ModuleNotFoundError: No module named 'agent'", Outcome.AGENT_ERROR),
    ],
)
def test_words_of_a_failure_tell_who_should_act(text: str, outcome: Outcome) -> None:
    assert find_cause(text) is outcome


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Claude AI usage limit reached|1735689600", "2025-01-01T00:00:00"),
        ("Please try again in 11.5s.", "2026-03-01T12:00:11.5"),
        ("Try again in 3 days 4 hours 5 minutes.", "2026-03-04T16:05:00"),
        ("retry-after: 90", "2026-03-01T12:01:30"),
        ("try again in 500ms", "2026-03-01T12:00:00.5"),
        ("limit until 2026-03-02T01:00:00Z", "2026-03-02T01:00:00"),
        ("hit your limit · resets 3pm", "2026-03-01T15:00:00"),
        ("try again at 9:30 AM", "2026-03-02T09:30:00"),
        ("last status: 429", None),
        ("resets 13:99pm", None),
    ],
)
def test_the_end_of_a_rate_limit_is_read(text: str, wanted: str | None) -> None:
    found = find_resumption(text, datetime(2026, 3, 1, 12, tzinfo=UTC))
    told = found and datetime.fromtimestamp(found, UTC)
    assert told == (wanted and datetime.fromisoformat(f"{wanted}+00:00"))


SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "items"],
    "properties": {
        "name": {"type": "string"},
        "items": {"type": "array", "items": {"type": "number"}},
        "mode": {"enum": ["min", "max"]},
        "note": {"type": ["string", "null"]},
    },
}


@pytest.mark.parametrize(
    ("value", "mistake"),
    [
        ({"name": "x", "items": [1, 0.5], "mode": "min", "note": None}, ""),
        ([], "$: is [], not of type object"),
        ({"name": "x"}, "$.items: is missing"),
        ({"name": "x", "items": [1e999]}, "$.items[0]: is inf, not of type number"),
        ({"name": "x", "items": [10**400]}, ""),
        ({"name": "x", "items": [True]}, "$.items[0]: is True, not of type number"),
        ({"name": "x", "items": [], "other": 1}, "$.other: is no key here"),
        ({"name": "x", "items": [], "mode": "m"}, "$.mode: is 'm', not one of "),
        (
            {"name": "x", "items": [], "note": 1},
            "$.note: is 1, not of type string or null",
        ),
    ],
)
def test_an_answer_is_checked_by_its_schema(value: object, mistake: str) -> None:
    found = find_mistake(value, SCHEMA)
    assert (found[: len(mistake)], bool(found)) == (mistake, bool(mistake))


def build_words(backend: BackendName, *, is_isolated: bool) -> str:
    request = Request(
        role="ideas",
        agent=AgentSpec(backend=backend, model="m1", sandbox="read-only"),
        prompt="",
        prompt_sha256="",
        cwd="/w",
        schema={},
        is_isolated=is_isolated,
    )
    return " ".join(BACKENDS[backend].build_command(request, "/s.json"))


@pytest.mark.parametrize("is_isolated", [True, False])
def test_the_own_sandbox_of_a_program_is_off_inside_ours(*, is_isolated: bool) -> None:
    codex = build_words("codex", is_isolated=is_isolated)
    claude = build_words("claude", is_isolated=is_isolated)
    sandbox = "danger-full-access" if is_isolated else "read-only"
    mode = "bypassPermissions" if is_isolated else "dontAsk --tools Read,Grep,Glob"
    assert codex == (
        f"codex exec --json --skip-git-repo-check --sandbox {sandbox} --model m1 "
        "--output-schema /s.json -"
    )
    assert claude.endswith(f"--permission-mode {mode} --model m1 --json-schema {{}}")


def read_events(backend: BackendName, *events: Any) -> Progress:
    progress = Progress()
    for event in events:
        read_line(json.dumps(event).encode(), BACKENDS[backend], progress)
    return progress


@pytest.mark.parametrize("backend", ["codex", "claude", "scripted"])
def test_events_of_any_form_are_survived(backend: BackendName) -> None:
    kinds = ("item.started", "turn.failed", "turn.completed", "assistant", "result")
    odd = (None, 1, "x", [1], {"content": 3, "usage": [], "message": 7, "id": {}})
    more: tuple[object, ...] = ("usage", "text", "error", [], None)
    for kind in (*kinds, *more):
        keys = ("item", "error", "usage", "message", "text", "total_cost_usd")
        read_events(backend, *({"type": kind, **dict.fromkeys(keys, o)} for o in odd))


def test_lines_come_whole_whatever_the_parts() -> None:
    found: list[bytes] = []
    lines = Output(found.append)
    for part in (b"on", b"e\n\ntwo\nth", b"ree"):
        lines.add(part)
    lines.flush()
    assert found == [b"one", b"two", b"three"]


def test_a_script_does_what_it_says_by_role(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", StringIO())
    (tmp_path / "old").touch()
    steps: list[Mapping[str, Any]] = [
        {"write": {"a/b": "x"}}, {"remove": ["old"]}, {"step": "edit"},
        {"usage": {"input_tokens": 7}}, {"say": "done"},
    ]  # fmt: skip
    script = {"ideas": steps, "*": [{"fail": "not me"}]}
    (tmp_path / "script.json").write_text(json.dumps(script))
    main(["ideas", "script.json"])
    assert (tmp_path / "a/b").read_text() == "x"
    assert not (tmp_path / "old").exists()
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    progress = read_events("scripted", *told)
    assert (progress.text, progress.has_ended, progress.failure) == ("done", True, "")
    assert progress.usage == Usage(input_tokens=7)
    with pytest.raises(ScriptFailed, match="not me"):
        main(["review_1", "script.json"])
    [last] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert read_events("scripted", last).failure == "ScriptFailed: not me"
