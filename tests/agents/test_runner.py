"""Calls of agents, made with stand-ins for what such programs do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.agents.call import (
    Answer,
    Request,
    hash_bytes,
    load_answer,
    write_request,
)
from autoexp_tui.agents.runner import main, run_call
from autoexp_tui.agents.supervision import ALLOWED
from autoexp_tui.executors.wrapper import list_descendants
from autoexp_tui.isolation.kinds import probe_isolation
from autoexp_tui.isolation.port import Isolation
from autoexp_tui.isolation.profiles import make_agent_profile
from autoexp_tui.model.agents import AgentSpec, Limits, Outcome, Prices, Usage
from autoexp_tui.model.errors import EnvironmentFailed, UsageError

STAND_IN = Path(__file__).with_name("stand_in.py")
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"ideas": {"type": "integer", "minimum": 0}},
    "required": ["ideas"],
}
QUICK = Limits(
    wall_seconds=20.0, idle_seconds=5.0, exit_seconds=0.1, stop_seconds=0.1, steps=15
)
PROMPT = b"Find three ideas.\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "prompt.md").write_bytes(PROMPT)
    (tmp_path / "cwd").mkdir()
    return tmp_path


def build_request(place: Path, case: str, **changes: Any) -> Request:
    agent = AgentSpec(
        backend=changes.pop("backend", "codex"),
        command=(sys.executable, "-I", "-S", str(STAND_IN), case),
        limits=replace(QUICK, **changes.pop("limits", {})),
        **changes.pop("agent", {}),
    )
    made = Request(
        role="ideas",
        agent=agent,
        prompt=str(place / "prompt.md"),
        prompt_sha256=hash_bytes(PROMPT),
        cwd=str(place / "cwd"),
        answer_file="_answer.json",
        schema=SCHEMA,
    )
    return replace(made, **changes)


def call(place: Path, case: str, **changes: Any) -> Answer:
    request = build_request(place, case, **changes)
    write_request(place / "call", request)
    return run_call(place / "call", request)


@pytest.mark.parametrize(
    ("case", "limits", "outcome", "why"),
    [
        ("odd numbers", {}, "ok", ""),
        ("odd text", {}, "rate_limit", "last status: 429 until 2026-99-99"),
        ("fills the disk", {"disk_bytes": 1 << 20}, "max_disk", "it wrote more than"),
        ("ok", {}, "ok", ""),
        ("no file", {}, "no_output", "it ended well, and wrote no _answer.json"),
        ("half JSON", {}, "bad_output", "_answer.json is no JSON: "),
        (
            "wrong schema",
            {},
            "bad_output",
            "_answer.json is not of the schema",
        ),
        ("link out", {}, "bad_output", "_answer.json: it is a symbolic link"),
        ("rc 3 with the file", {}, "agent_error", "Done. it ended with 3"),
        ("401", {}, "auth_error", "unexpected status 401 Unauthorized"),
        ("429", {}, "rate_limit", "exceeded retry limit, last status: 429."),
        ("500", {}, "unavailable", "We're currently experiencing high demand"),
        ("500 retried", {}, "ok", ""),
        ("hang before the first event", {"idle_seconds": 0.3}, "idle_timeout", "it pr"),
        ("waits for the network", {"idle_seconds": 0.6}, "unavailable", "it printed"),
        ("hang midway", {"idle_seconds": 0.3}, "idle_timeout", "it printed nothing"),
        ("never ends", {"wall_seconds": 0.4}, "timeout", "it ran longer than 0.4 s"),
        ("never exits", {}, "ok", ""),
        ("daemon", {}, "ok", ""),
        ("16 steps of 15", {}, "max_steps", "it used tools more than 15 times"),
        ("15 steps of 15", {}, "ok", ""),
        ("long line", {}, "ok", ""),
        ("no last event", {}, "agent_error", "it ended before its last event"),
    ],
)
def test_a_call_ends_with_its_outcome_and_leaves_no_process(
    place: Path, case: str, limits: Mapping[str, float], outcome: str, why: str
) -> None:
    before = list_descendants(os.getpid())
    answer = call(place, case, limits=limits)
    assert (answer.outcome, answer.why[: len(why)]) == (outcome, why)
    assert bool(answer.why) == bool(why)
    assert list_descendants(os.getpid()) == before
    assert answer == load_answer(place / "call")
    if outcome == "ok":
        [file] = answer.files
        data = (place / "call/files/_answer.json").read_bytes()
        assert (data, file.sha256) == (b'{"ideas": 3}', hash_bytes(data))
        assert not (place / "cwd/_answer.json").exists()


USED = Usage(input_tokens=3000, cached_tokens=1000, output_tokens=50)
SEEN = Usage(input_tokens=1000, cached_tokens=900, output_tokens=10)
NONE = Usage()


@pytest.mark.parametrize(
    ("case", "limits", "outcome", "why", "used"),
    [
        ("ok", {}, "ok", "", USED),
        ("structured", {}, "ok", "", USED),
        ("denied", {}, "no_output", "it ended well, and wrote no", USED),
        ("unknown model", {}, "agent_error", "There's an issue with the", USED),
        ("max turns", {}, "agent_error", "error_max_turns", USED),
        ("rc 3 with the file", {}, "agent_error", "Done. it ended with 3", USED),
        ("401", {}, "auth_error", "Invalid API key", USED),
        ("429", {}, "rate_limit", "Claude AI usage limit reached, resets in", USED),
        ("500", {}, "unavailable", "API Error: 529", USED),
        ("500 retried", {}, "ok", "", USED),
        ("hang midway", {"idle_seconds": 0.3}, "idle_timeout", "it printed", SEEN),
        ("never exits", {}, "ok", "", USED),
        ("16 steps of 15", {}, "max_steps", "it used tools more than 15 times", None),
        ("odd numbers", {}, "ok", "", NONE),
        ("odd text", {}, "rate_limit", "last status: 429 until 2026-99-99", USED),
        ("no last event", {}, "agent_error", "it ended before its last event", None),
    ],
)
def test_a_call_of_claude_ends_with_its_outcome_and_what_it_used(
    place: Path,
    case: str,
    limits: Mapping[str, float],
    outcome: str,
    why: str,
    used: Usage | None,
) -> None:
    file = "" if case == "structured" else "_answer.json"
    answer = call(place, case, limits=limits, backend="claude", answer_file=file)
    assert (answer.outcome, answer.why[: len(why)]) == (outcome, why)
    assert answer == load_answer(place / "call")
    if case == "structured":
        assert json.loads(answer.text) == {"ideas": 3}
    if used is not None:
        assert (answer.usage, answer.cost) == (used, 0.25 if used is USED else None)
    assert (answer.resume_at is not None) == (case == "429")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (
            ("no-such-agent",),
            "it did not start: no-such-agent: there is no such program",
        ),
        (("sh", "-c", "echo no model >&2; exit 127"), "no model"),
    ],
)
def test_a_program_that_is_not_there_or_lacks_something_is_not_found(
    place: Path, command: tuple[str, ...], why: str
) -> None:
    request = build_request(place, "ok")
    agent = replace(request.agent, backend="command", command=command)
    write_request(place / "call", request := replace(request, agent=agent))
    answer = run_call(place / "call", request)
    assert (answer.outcome, answer.why) == (Outcome.NOT_FOUND, why)


def test_a_file_of_an_earlier_call_is_no_answer(place: Path) -> None:
    (place / "cwd/_answer.json").write_text('{"ideas": 1}')
    assert call(place, "no file").outcome is Outcome.NO_OUTPUT
    assert (place / "call/stale/_answer.json").read_text() == '{"ideas": 1}'


def test_a_call_made_again_keeps_what_the_earlier_run_left(place: Path) -> None:
    call(place, "wrong schema")
    assert call(place, "ok").outcome is Outcome.OK
    earlier = load_answer(place / "call/earlier.1")
    assert earlier is not None
    assert earlier.outcome is Outcome.BAD_OUTPUT
    assert (place / "call/earlier.1/files/_answer.json").exists()


def test_the_environment_is_the_allow_list(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SECRET_TOKEN", "FAKE_KEY", "PYTHONPATH"):
        monkeypatch.setenv(name, "x")
    env = {"FAKE_KEY": None, "MODE": "fast", "NOT_SET": None}
    call(place, "environment", agent={"env": env}, schema=None, is_isolated=True)
    found = json.loads((place / "call/files/_answer.json").read_bytes())["env"]
    own_home = place / "call/home"
    own = {"HOME", "TMPDIR", "AUTOEXP_ANSWER_FILE", "FAKE_KEY", "MODE", "IS_SANDBOX"}
    assert found.keys() - {"LC_CTYPE"} == own | (ALLOWED & os.environ.keys())
    assert found["HOME"] == str(own_home)
    assert (found["FAKE_KEY"], found["MODE"]) == ("x", "fast")
    assert not own_home.exists()
    assert not (place / "call/tmp").exists()


def test_usage_is_told_or_read_from_what_a_killed_program_left(place: Path) -> None:
    prices = Prices(input=2.0, cached_input=0.5, output=10.0)
    told = call(place, "ok", agent={"prices": prices})
    assert told.usage == Usage(input_tokens=3000, cached_tokens=1000, output_tokens=50)
    assert told.cost == pytest.approx((2000 * 2 + 1000 * 0.5 + 50 * 10) / 1e6)
    killed = call(place, "killed")
    assert killed.outcome is Outcome.MAX_STEPS
    assert killed.usage is not None
    assert killed.usage.input_tokens == 136000


def test_a_rate_limit_tells_when_it_ends(place: Path) -> None:
    answer = call(place, "429")
    now = os.stat(place / "call/answer.json").st_mtime
    assert answer.resume_at == pytest.approx(now + 3720, abs=5)


def test_a_transcript_keeps_its_beginning_and_its_end(place: Path) -> None:
    call(place, "long line", limits={"output_bytes": 100_000})
    text = (place / "call/transcript.log").read_bytes()
    assert len(text) < 200_000
    assert text.startswith(b'{"type": "item.started"')
    assert b" bytes left out]\n" in text
    assert b'"turn.completed"' in text[-400:]


def test_a_command_needs_status_0_and_its_file(place: Path) -> None:
    asked: dict[str, Any] = {"answer_file": "", "schema": None}
    request = build_request(place, "ok", backend="command", **asked)
    with pytest.raises(UsageError, match="proves nothing"):
        write_request(place / "call", request)
    write_request(place / "call", replace(request, role="implement"))
    assert call(place, "ok", backend="command").outcome is Outcome.OK
    assert call(place, "no file", backend="command").outcome is Outcome.NO_OUTPUT
    answer = call(place, "rc 3 with the file", backend="command")
    assert answer.outcome is Outcome.AGENT_ERROR


def test_several_files_are_taken_in_order_of_their_names(place: Path) -> None:
    script = [{"write": {"ideas/b.md": "B", "ideas/a.md": "A"}}]
    (place / "script.json").write_text(json.dumps(script))
    request = build_request(place, "", answer_file="ideas/*.md", schema=None)
    agent = AgentSpec(backend="scripted", command=(str(place / "script.json"),))
    answer = run_call(place / "call", replace(request, agent=agent))
    assert [file.name for file in answer.files] == ["ideas/a.md", "ideas/b.md"]


def test_an_answer_whose_name_is_no_text_is_none(place: Path) -> None:
    answer = call(place, "odd name", answer_file="*.json")
    assert answer.outcome is Outcome.BAD_OUTPUT
    assert answer.why == "_answer\ufffd.json: its name is no plain text"


def test_words_before_the_command_isolate_it(place: Path) -> None:
    request = build_request(place, "ok")
    write_request(place / "call", replace(request, is_isolated=True))
    program = place / "isolate"
    program.write_text('#!/bin/sh\necho "$@" > words\nexec "$@"\n')
    program.chmod(0o700)
    assert main([str(place / "call"), str(program)]) == 0
    words = (place / "cwd/words").read_text()
    assert words.startswith(sys.executable)
    assert "--sandbox danger-full-access" in words


@pytest.mark.parametrize("isolation", probe_isolation(), ids=lambda one: one.name)
def test_an_isolated_call_ends_as_any_other(place: Path, isolation: Isolation) -> None:
    tests = (STAND_IN.parent,)
    profile = make_agent_profile(place / "cwd", place / "call", readable=tests)
    request = build_request(place, "daemon")
    answer = run_call(place / "call", request, isolation.wrap((), profile))
    assert (answer.outcome, answer.why) == (Outcome.OK, "")
    assert not list_descendants(os.getpid())


def test_a_job_that_is_ended_ends_its_call_and_says_so(place: Path) -> None:
    write_request(place / "call", build_request(place, "hang midway"))
    words = [sys.executable, "-m", "autoexp_tui.agents.runner", str(place / "call")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as job:
        threading.Thread(target=_end_when_begun, args=(place, job)).start()
        assert job.stdout is not None
        told = job.stdout.read()
    assert job.returncode == 1
    assert told.startswith("cancelled after")
    answer = load_answer(place / "call")
    assert answer is not None
    assert (answer.outcome, answer.steps) == (Outcome.CANCELLED, 1)


def _end_when_begun(place: Path, job: subprocess.Popen[str]) -> None:
    transcript = place / "call/transcript.log"
    pause = threading.Event()
    while not (transcript.exists() and transcript.stat().st_size):
        pause.wait(0.01)
    job.send_signal(signal.SIGTERM)


def test_children_that_were_there_before_stay(place: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        call(place, "daemon")
        assert other.poll() is None
        other.kill()


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"prompt_sha256": "0"}, "not the one that was recorded"),
        ({"cwd": "/no/such/directory"}, "is not there"),
        ({"answer_file": "../x.json"}, "leads out of its directory"),
    ],
)
def test_a_call_that_cannot_be_begun_is_refused(
    place: Path, changes: Mapping[str, Any], error: str
) -> None:
    request = build_request(place, "ok", **changes)
    with pytest.raises((EnvironmentFailed, UsageError), match=error):
        run_call(place / "call", request)
