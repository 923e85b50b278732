"""What command lines mean, what is said of errors, and the yes that a plan needs."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from autoexp_tui.cli import plan as plan_command
from autoexp_tui.cli import run, submit, tui
from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.open import build_request, choose_jobs, confirm
from autoexp_tui.cli.options import Options, parse_options
from autoexp_tui.model.errors import (
    EnvironmentFailed,
    NotConfirmed,
    Problem,
    SessionOwned,
    UsageError,
    ValidationFailed,
)
from autoexp_tui.model.specs import ExecutorSpec, JobSpec, Plan, Resources
from autoexp_tui.model.states import JobState
from autoexp_tui.storage.manifests import write_manifest
from tests.model.builders import job, plan
from tests.support.campaigns import planned
from tests.support.scripted_handle import ScriptedHandle

Say = Callable[..., tuple[int, str, str]]
Patch = pytest.MonkeyPatch

MIXED = "optim.lr=1e-3 --config-ref exp +new=1 --json ~old"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (MIXED, {"overrides": ("optim.lr=1e-3", "+new=1", "~old")}),
        (MIXED, {"config_ref": "exp", "json": True, "state_dir": "/from/env"}),
        ("--state-dir /given", {"state_dir": "/given"}),
        ("--approve none", {"approve": set()}),
        ("--approve all", {"approve": {"*"}}),
        ("--approve report,eval", {"approve": {"report", "eval"}}),
        ("--local a=1", {"overrides": ("a=1",), "local": True}),
    ],
)
def test_options_and_overrides_mean_this_in_any_order(
    monkeypatch: Patch, words: str, expected: dict[str, object]
) -> None:
    monkeypatch.setenv("AUTOEXP_STATE_DIR", "/from/env")
    found = parse_options("autoexp-run", "about", words.split())[0]
    assert {name: getattr(found, name) for name in expected} == expected
    if found.local:
        local = "++slurm.client.class_name=LocalClient"
        assert build_request(found).overrides == ("a=1", local)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("--sesion=k7f2", "Did you mean --session? "),
        ("--approv", "Did you mean --approve? "),
        ("--man", "Did you mean --manifest? "),  # no near miss, but its beginning
        ("--zzz", ""),
    ],
)
def test_an_option_that_is_none_is_told_with_the_one_that_was_meant(
    word: str, meant: str
) -> None:
    with pytest.raises(UsageError) as refused:
        parse_options("autoexp-run", "about", [word])
    assert refused.value.hint == f"{meant}autoexp-run --help lists the options."


@pytest.mark.parametrize(
    "word", ["plan", "= 3", "two words", "9x=1", "--sesion", "--config"]
)
def test_what_is_no_option_or_override_is_refused_and_no_option_shortened(
    word: str,
) -> None:
    told = word if word.startswith("--") else "neither an option nor an override"
    with pytest.raises(UsageError, match=told):
        parse_options("autoexp-run", "about", [word])


INTERNAL = (
    "internal error: ZeroDivisionError: oops\n"
    "  This is a bug in autoexp-tui. The traceback is in /"
)
HOSTILE = UsageError("no job `\x1b[2J\u202ea\x9b1mb`", hint="one\nto a line")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (HOSTILE, 2, "error: no job `ab`\n  one\n  to a line\n"),
        (ValidationFailed("x", problems=(Problem("y"),)), 3, "error: x"),
        (SessionOwned("x"), 4, "error: x\n"),
        (EnvironmentFailed("x"), 5, "error: x\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (ZeroDivisionError("oops"), ExitCode.INTERNAL, INTERNAL),
    ],
)
def test_each_kind_of_error_has_its_exit_code_and_no_traceback(
    say: Say, error: BaseException, code: int, said: str
) -> None:
    def main(_argv: Sequence[str]) -> int:
        raise error

    found, _, err = say(main)
    assert found == code
    assert err.startswith(said)
    assert "Traceback" not in err


def on_a_terminal(monkeypatch: Patch) -> None:
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}", SimpleNamespace(isatty=lambda: True))


@pytest.mark.parametrize(
    ("words", "config"),
    [
        ("-C conf", "exp"),
        ("lr=3", "exp"),
        ("--config-ref mine lr=3", "mine"),
        ("--session k7f2 -C conf", ""),
        ("--manifest plan.json -C conf", ""),
    ],
)
def test_a_config_directory_or_overrides_alone_mean_the_usual_config(
    monkeypatch: Patch, words: str, config: str
) -> None:
    on_a_terminal(monkeypatch)
    shown: list[str] = []

    def cockpit(options: Options, _: object) -> SimpleNamespace:
        return SimpleNamespace(run=lambda: shown.append(options.config_ref))

    monkeypatch.setattr(tui, "Cockpit", cockpit)
    tui.main(words.split())
    assert shown == [config]


def test_a_replay_s_speed_is_a_number_or_as_fast_as_it_goes_and_takes_no_plan(
    monkeypatch: Patch,
) -> None:
    for text, speed in {"1": 1.0, "60x": 60.0, "1e6x": 1e6, "max": math.inf}.items():
        assert tui.parse_speed(text) == speed
    for text in ("", "x", "0.5x", "-1", "nan", "fast"):
        with pytest.raises(UsageError, match="speed"):
            tui.parse_speed(text)
    on_a_terminal(monkeypatch)
    with pytest.raises(UsageError, match="plays what happened"):
        tui.main(["--replay", "--config-ref", "exp"])


def test_a_cockpit_without_a_terminal_is_a_lack_of_the_environment(
    monkeypatch: Patch, say: Say
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    code, _, err = say(tui.main, "--config-ref", "exp")
    assert (code, "needs a terminal" in err) == (5, True)


def sized(number: int, hours: float = 1.0, gpus: int = 60, family: int = 0) -> JobSpec:
    made = job(f"j{number}", number, family=f"f{family}")
    limit = hours * 3600.0 or None
    return replace(made, resources=Resources(time_limit_seconds=limit, gpus=gpus))


def bounded(gpu_hours: int, jobs: int | None, *specs: JobSpec) -> Plan:
    settings = {"confirm_gpu_hours": gpu_hours, "confirm_jobs": jobs}
    return plan(*specs, executor=ExecutorSpec(settings=settings))


LARGE = bounded(100, 2, *(sized(n, 10.0, 4) for n in range(3)))
FAMILIES = bounded(120, None, *(sized(n, family=n // 2) for n in range(4)))
ABOVE = (
    "120 GPU h, above the bound of 100 (slurm.confirm.gpu_hours); "
    "3 jobs, above the bound of 2 (slurm.confirm.jobs)"
)
ASKED = f"This submits {ABOVE}.\nSubmit? [y/N] "
DONE = SimpleNamespace(done={"j0": None, "j1": None})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def answering(monkeypatch: Patch) -> Callable[[str], Terminal]:
    """A terminal on which somebody answers; what is shown on it."""

    def prepare(answer: str) -> Terminal:
        shown = Terminal()
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        monkeypatch.setattr(sys, "stderr", shown)
        return shown

    return prepare


Answering = Callable[[str], Terminal]


@pytest.mark.parametrize("main", [run.main, submit.main])
def test_without_a_terminal_it_is_refused_and_nothing_starts(
    tmp_path: Path, say: Say, main: Callable[[Sequence[str]], int]
) -> None:
    manifest = str(write_manifest(tmp_path, LARGE))
    code, _, err = say(main, "--manifest", manifest, "--state-dir", str(tmp_path))
    how = "Add --yes to do it; `slurm.confirm` in the config has the bounds."
    assert (code, err) == (3, f"error: this submits {ABOVE}\n  {how}\n")
    assert [one.name for one in tmp_path.iterdir()] == ["manifests"]


def test_on_a_terminal_it_is_asked_and_anything_but_a_yes_is_a_no(
    answering: Answering,
) -> None:
    for answer in ("y\n", "Yes\n"):
        shown = answering(answer)
        confirm(LARGE, Options())
        assert shown.getvalue() == ASKED
    shown = answering("y\n")
    confirm(replace(LARGE, jobs=(*LARGE.jobs, sized(3, 0, 1))), Options())
    assert "; 1 job without a time limit.\n" in shown.getvalue()
    for answer in ("n\n", "\n", "", "yess\n"):
        answering(answer)
        with pytest.raises(NotConfirmed, match="not submitted"):
            confirm(LARGE, Options())


def test_what_is_confirmed_done_or_within_the_bounds_is_not_asked(
    answering: Answering, monkeypatch: Patch
) -> None:
    shown = answering("n\n")
    confirm(LARGE, Options(yes=True))
    confirm(LARGE, Options(yes=True), asks=False)
    confirm(plan(job("a")), Options())
    with pytest.raises(NotConfirmed, match="--submit submits 120 GPU h"):
        confirm(LARGE, Options(), asks=False)
    monkeypatch.setattr("autoexp_tui.storage.done_file.check_done", lambda _: DONE)
    confirm(LARGE, Options())
    assert shown.getvalue() == ""
    with pytest.raises(NotConfirmed):
        confirm(LARGE, Options(force=True))
    assert choose_jobs(FAMILIES, Options(), first_family=True) == ("j2", "j3")


def test_of_a_family_or_the_rest_its_own_cost_alone_is_confirmed(
    say: Say, monkeypatch: Patch
) -> None:
    for words in (["--session", "k7f2", "--first-family"], ["--rest"]):
        with pytest.raises(UsageError, match="--first-family is for a new session"):
            run.main(words)
    with pytest.raises(NotConfirmed, match="240 GPU h"):
        choose_jobs(FAMILIES, Options(), first_family=False)
    assert choose_jobs(FAMILIES, Options(), first_family=True)
    states = [JobState.COMPLETED, *[JobState.HELD] * 3]
    pairs = zip(planned(10).jobs[:4], FAMILIES.jobs, states, strict=True)
    jobs = tuple(replace(view, spec=spec, state=state) for view, spec, state in pairs)
    rest = ScriptedHandle(replace(planned(10), plan=FAMILIES, jobs=jobs))
    found = SimpleNamespace(path="")
    monkeypatch.setattr("autoexp_tui.cli.open.find_session", lambda *_: found)
    monkeypatch.setattr("autoexp_tui.cli.open.SessionOpener.own", lambda *_: rest)
    code, _, err = say(run.main, "--session", "k7f2", "--rest")
    assert (code, rest.closed) == (3, True)
    assert "this submits 180 GPU h" in err


def test_a_plan_says_what_it_may_cost(tmp_path: Path, say: Say) -> None:
    words = ["--manifest", str(write_manifest(tmp_path, LARGE))]
    code, shown, _ = say(plan_command.main, *words)
    assert code == 0
    assert "estimate  3 jobs: at most 120 GPU h, 30 CPU h an attempt each\n" in shown
    found = json.loads(say(plan_command.main, *words, "--json")[1])["estimate"]
    assert (found["gpu_hours"], len(found["confirm"])) == (120.0, 2)
