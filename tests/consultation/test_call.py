"""Calls of agents for research: what came of each, and of the code that they left."""

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

from autoexp_tui.agents.call import hash_bytes
from autoexp_tui.consultation import call
from autoexp_tui.consultation.call import clean_up, conclude
from autoexp_tui.consultation.requests import CALLED, CallRequest
from autoexp_tui.evaluation.requests import load_record, write_record
from autoexp_tui.executors.wrapper import list_descendants
from autoexp_tui.isolation.kinds import NoIsolation, probe_isolation
from autoexp_tui.isolation.port import Isolation
from autoexp_tui.model.agents import AgentSpec, Outcome
from autoexp_tui.research.instructions import OUTPUT as ANSWER_FILE
from autoexp_tui.research.jobs import REQUEST
from tests.agents.test_runner import USED
from tests.consultation.one_call import ANSWER, OneCall, stand_in, write_agent
from tests.worktrees.conftest import call_git, describe_users_part

IDLE = {"idle_seconds": 0.3}


@pytest.mark.parametrize(
    ("case", "limits", "outcome", "problem"),
    [
        ("ok", {}, "ok", ""),
        ("no file", {}, "no_output", f"it ended well, and wrote no {ANSWER_FILE}"),
        ("half JSON", {}, "bad_output", f"{ANSWER_FILE} is no JSON: "),
        ("wrong schema", {}, "bad_output", f"{ANSWER_FILE} is not of the schema: $."),
        ("10 MB of JSON", {}, "bad_output", f"{ANSWER_FILE}: it has 10000018 bytes"),
        ("rc 3 with the file", {}, "agent_error", "Done. it ended with 3"),
        ("401", {}, "auth_error", "unexpected status 401 Unauthorized"),
        ("429", {}, "rate_limit", "exceeded retry limit, last status: 429."),
        ("500", {}, "unavailable", "We're currently experiencing high demand"),
        ("hang midway", IDLE, "idle_timeout", "it printed nothing for 0.3 s"),
        ("never exits", {}, "ok", ""),
        ("long line", {}, "ok", ""),
        ("16 steps of 15", {}, "max_steps", "it used tools more than 15 times"),
        ("900 kB", {}, "ok", ""),
    ],
)
def test_a_call_ends_with_its_outcome(
    tmp_path: Path, case: str, limits: Mapping[str, float], outcome: str, problem: str
) -> None:
    one = OneCall(tmp_path)
    prompt = {"prompt": b"x" * 900_000} if case == "900 kB" else {}
    stale = one.home / "work" / ANSWER_FILE
    stale.parent.mkdir(parents=True)
    stale.write_text(json.dumps(ANSWER))  # of an earlier call
    made = one.call(one.build_request(stand_in(case, {**limits}), **prompt))
    assert (made.outcome, made.problem[: len(problem)]) == (outcome, problem)
    assert (made.is_sent, bool(made.problem)) == (True, outcome != "ok")
    assert (made.resume_at is not None) == (case == "429")
    if outcome == "ok":
        data = (one.home / made.answer).read_bytes()
        assert (json.loads(data), made.sha256) == (ANSWER, hash_bytes(data))
        assert made.usage == USED
        clean_up(load_record(CallRequest, one.home / REQUEST), made)
        assert not stale.parent.exists()


def test_a_missing_program_is_not_found_and_nobody_was_called(tmp_path: Path) -> None:
    one = OneCall(tmp_path)
    agent = AgentSpec(backend="codex", command=("no-such-program",))
    made = one.call(one.build_request(agent))
    assert (made.outcome, made.is_sent) == (Outcome.NOT_FOUND, False)
    assert made.problem == "it did not start: no-such-program: there is no such program"


def test_the_next_agent_of_a_chain_is_called_where_the_service_of_one_fails(
    tmp_path: Path,
) -> None:
    one = OneCall(tmp_path)
    agents = [stand_in(case) for case in ("rc 3 with the file", "429", "ok", "ok")]
    made = one.call(one.build_request(*agents[1:]))
    assert (made.outcome, made.usage, made.resume_at) == (Outcome.OK, USED, None)
    assert one.call(one.build_request(*agents)).outcome is Outcome.AGENT_ERROR


def test_isolation_that_is_required_and_missing_calls_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoexp_tui.isolation.kinds.probe_isolation", lambda: ())
    one = OneCall(tmp_path, "require")
    made = one.call(one.build_request(stand_in("ok")))
    assert (made.outcome, made.is_sent) == (Outcome.AGENT_ERROR, False)
    assert "isolation is required" in made.problem


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_call_used_is_known_after_its_job_was_killed(
    tmp_path: Path, number: signal.Signals
) -> None:
    one = OneCall(tmp_path)
    request = one.build_request(stand_in("killed", {"steps": None}))
    write_record(one.home / REQUEST, request)
    words = (sys.executable, "-m", "autoexp_tui.consultation.call")
    with subprocess.Popen((*words, str(one.home / REQUEST)), stdout=-3) as job:
        pause, log = threading.Event(), one.home / "transcript.log"
        while not (log.exists() and b'"15"' in log.read_bytes()):
            pause.wait(0.01)
        agents = list_descendants(job.pid)
        job.send_signal(number)
    if number is signal.SIGTERM:
        made = one.load()
        assert made.outcome is Outcome.CANCELLED
    else:
        assert not (one.home / CALLED).exists()
        for agent in agents:
            os.kill(agent, signal.SIGKILL)
        made = conclude(request)
        assert (made.outcome, made.problem) == ("agent_error", "its job was killed")
    assert made.usage == replace(USED, input_tokens=136000)
    assert made.is_sent
    assert not (one.home / "home").exists()


WRITE = "open('train.py', 'w').write('rate = 2\\n')"


def test_an_answer_and_its_code_stand_although_the_job_died_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = OneCall(tmp_path)
    request = one.build_code_request(write_agent(WRITE))
    with monkeypatch.context() as patched:
        patched.setattr(call, "conclude", lambda _: sys.exit(9))
        with pytest.raises(SystemExit):
            one.call(request)
    made = conclude(request)
    assert (made.outcome, made.answer) == (Outcome.OK, f"files/{ANSWER_FILE}")
    assert made.code is not None
    assert conclude(replace(request, code_base="")) == replace(made, code=None)


def test_a_change_of_code_is_one_commit_on_no_branch(tmp_path: Path) -> None:
    one = OneCall(tmp_path)
    request = one.build_code_request(write_agent(WRITE, "open('new.log', 'w')"))
    call_git(one.top, "config", "user.name", "Somebody")
    before = describe_users_part(one.top)
    made = one.call(request)
    assert (made.outcome, made.code) == (Outcome.OK, None)
    assert made.code_refused == "it is a result or a log, not code: new.log"
    code = one.call(one.build_request(write_agent(WRITE), **_keep(request))).code
    assert code is not None
    assert (code.base, code.files) == (request.code_base, 1)
    assert code.diffstat.splitlines()[0] == "train.py  +1 -1"
    assert call_git(one.top, "show", f"{code.commit}:train.py") == "rate = 2\n"
    ref = "refs/research-calls/s1/c1"
    assert call_git(one.top, "rev-parse", ref).strip() == code.commit
    call_git(one.top, "update-ref", "-d", ref)
    assert describe_users_part(one.top) == before
    assert "+rate = 2" in (one.home / "code.patch").read_text()
    again = one.call(one.build_request(write_agent(WRITE), **_keep(request)))
    assert again.code == code


def _keep(request: CallRequest) -> dict[str, Any]:
    names = ("top", "git_dir", "code_base", "epoch")
    return {name: getattr(request, name) for name in names}


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        (["pass"], ""),
        (["open('tests/test_train.py', 'w').write('1')"], "a protected path changed"),
        (["open('data.txt', 'w').write('1')"], "only what the option `editable` names"),
        (["open('.gitignore', 'w').write('x')"], "files of git are not a candidate's"),
        (["open('big.py', 'wb').write(bytes(5000))"], "it is larger than"),
        (["os.remove('.git'); os.mkdir('.git')"], "the worktree is not as we left it"),
    ],
)
def test_a_refused_change_of_code_costs_no_answer(
    tmp_path: Path, lines: list[str], refused: str
) -> None:
    one = OneCall(tmp_path)
    rules = {"editable": ("*.py",), "protected_paths": ("tests",)}
    agent = write_agent(*lines)
    request = one.build_code_request(agent, **rules, max_file_bytes=4096)
    made = one.call(request)
    clean_up(request, made)
    assert (made.outcome, made.problem, made.code) == (Outcome.OK, "", None)
    assert made.code_refused.startswith(refused)
    assert bool(made.code_refused) == bool(refused)
    assert (one.directory / "call/1").exists() == bool(refused)
    assert json.loads((one.home / made.answer).read_bytes()) == ANSWER


def test_a_change_of_the_fixers_is_not_taken(tmp_path: Path) -> None:
    one = OneCall(tmp_path)
    request = one.build_code_request(write_agent(WRITE))
    made = one.call(replace(request, role="fixer"))
    assert (made.outcome, made.code) == (Outcome.OK, None)


OUTSIDE = {
    "request": "{home}/call.json",
    "goal": "{home}/prompt.md",
    "checkout": "{top}/train.py",
    "plan": "{place}/plan.json",
}


@pytest.mark.parametrize(
    "kind", [NoIsolation(), *probe_isolation()], ids=lambda one: one.name
)
@pytest.mark.parametrize("what", OUTSIDE)
def test_an_agent_that_edits_outside_its_directory_cannot_or_is_found(
    tmp_path: Path, what: str, kind: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "choose_isolation", lambda wanted: kind)
    one, plan = OneCall(tmp_path), tmp_path / "plan.json"
    plan.write_text("{}")
    path = OUTSIDE[what].format(home=one.home, top=one.top, place=tmp_path)
    edit = f"try: open({path!r}, 'a').write('x')\nexcept OSError: pass"
    request = one.build_code_request(write_agent(edit))
    made = one.call(replace(request, guarded=(str(plan),)))
    if kind.promises:
        assert (made.outcome, made.problem) == (Outcome.OK, "")
        assert "x" not in Path(path).read_text()[-1:]
        assert kind.name in made.isolation
    else:
        assert made.outcome is Outcome.BAD_OUTPUT
        assert made.problem.endswith(f"what lies outside its directory: {path}")
        assert made.code is None
