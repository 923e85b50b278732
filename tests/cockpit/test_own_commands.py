"""Commands of a person's own: what is refused, what they are told, who may run them."""

from __future__ import annotations

import os
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cockpit import own_commands
from autoexp_tui.cockpit.keymap import Keymap
from autoexp_tui.cockpit.own_commands import build_environment, choose_shell
from autoexp_tui.cockpit.settings import build_settings, read_own_commands
from autoexp_tui.cockpit.state.session import Look
from autoexp_tui.model.errors import UsageError
from tests.cockpit.seat import cockpit
from tests.cockpit.views import SESSION, changed, looking

SHOW = """
from os import environ as told
print("told", told["AUTOEXP_JOB"], told["AUTOEXP_PARAM_OPTIM_LR"])
"""
ENTRY: dict[str, Any] = {
    "key": "f5",
    "label": "show",
    "command": [sys.executable, "-c", SHOW],
}


def bind(*entries: object) -> Keymap:
    return Keymap().add(read_own_commands(entries, "ui.commands"), "ui.commands")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"key": "j"}, "own.1: j is move.down's"),
        ({"key": "K"}, "run.kill's (it acts)"),
        ({"key": "s"}, "one slip from S"),
        ({"key": "ctrl+z"}, "must stay free"),
        ({"key": "nonsense"}, "no key 'nonsense'"),
        ({"command": "rm -rf"}, ".command is no list of words"),
        ({"command": []}, ".command has no program"),
        ({"command": ["x", 3]}, ".command is no list of words"),
        ({"label": ""}, ".label is no text"),
        ({"where": ["nowhere"]}, "no pane 'nowhere'"),
        ({"confirm": "no"}, ".confirm is neither true nor false"),
        ({"shell": True}, ".shell is no key here"),
    ],
)
def test_commands_that_cannot_be_are_refused(
    change: dict[str, object], told: str
) -> None:
    with pytest.raises(UsageError) as refused:
        bind({**ENTRY, **change})
    assert told in str(refused.value)


def test_two_commands_on_one_key_are_refused_unless_their_panes_differ() -> None:
    with pytest.raises(UsageError, match="own"):
        bind(ENTRY, {**ENTRY, "label": "other"})
    keymap = bind({**ENTRY, "where": ["log"]}, {**ENTRY, "where": ["jobs"]})
    found = [keymap.find("f5", pane) for pane in ("log", "jobs", "why")]
    assert [one and one.id for one in found] == ["own.1", "own.2", None]


def test_settings_hold_theme_keys_and_commands_and_no_more() -> None:
    content = {"theme": "light", "keys": {"run.kill": "ctrl+k"}, "commands": [ENTRY]}
    made = build_settings(content, "settings.toml")
    assert made.theme == "light"
    assert made.keymap is not None
    assert (made.keymap.key("run.kill"), made.keymap.key("own.1")) == ("ctrl+k", "f5")
    without = build_settings(content, "settings.toml", commands=False)
    assert without.keymap is not None
    assert not without.keymap.own
    for wrong in ({"mouse": True}, {"keys": 3}, {"theme": 3}, {"commands": 3}):
        with pytest.raises(UsageError):
            build_settings(wrong, "settings.toml")


async def test_a_command_runs_for_the_row_and_its_output_is_read() -> None:
    asking = {**ENTRY, "key": "f6", "label": "ask", "confirm": True}
    failing = {**ENTRY, "key": "f7", "label": "odd", "command": ["/nowhere/program"]}
    async with cockpit(keymap=bind(ENTRY, asking, failing)) as seat:
        name = seat.jobs.jobs.find_jobs()[0].name
        await seat.see("f5", dialog=f"show|It ended with 0|told {name} 1e-3")
        await seat.see("escape f6", dialog=f"Run ask?|for {name}|[Do nothing]")
        await seat.see("hear y", dialog=f"told {name}")
        await seat.see("escape f7", footer="was not run: No such file")
        await seat.see("?", dialog="f5|show: ")
        assert seat.handle.sent == []


async def test_a_command_that_hangs_or_floods_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_commands, "MOST_SECONDS", 1.0)
    pids = tmp_path / "pids"
    hang = f"echo told; sleep 900 & echo $! >> {pids}; echo $$ >> {pids}; wait"
    entries = [
        {**ENTRY, "command": ["sh", "-c", hang]},
        {**ENTRY, "key": "f6", "label": "flood", "command": ["yes"]},
    ]
    async with cockpit(keymap=bind(*entries)) as seat:
        await seat.see("f5", dialog="It ran longer than 1 s, and was ended|told")
        monkeypatch.setattr(own_commands, "MOST_SECONDS", 900.0)
        await seat.see("escape f6", dialog="It wrote more than 1|, and was ended")
        await seat.press("escape", "f5")
        await seat.until(lambda: len(pids.read_text().split()) == 4)
        await seat.press("f5")  # again: the one before is ended
        await seat.until(lambda: len(pids.read_text().split()) == 6)
    left = [int(pid) for pid in pids.read_text().split()]
    deadline = time.monotonic() + 10
    while (alive := [*filter(is_running, left)]) and time.monotonic() < deadline:
        os.sched_yield()
    assert alive == []


def is_running(pid: int) -> bool:
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        )
    except OSError:
        return False


@pytest.mark.parametrize("way", [{"read_only": True}, {"handle_read_only": True}])
async def test_nothing_is_run_where_nothing_may_be_commanded(
    way: dict[str, Any],
) -> None:
    async with cockpit(keymap=bind(ENTRY), **way) as seat:
        for key in ("f5", "dollar_sign"):
            await seat.see(key, footer="nothing is run from here", dialog="!told")


def test_what_is_told_of_a_job_is_text_alone() -> None:
    hostile = "$(touch x); `y`\0\n"
    job, _ = changed(looking(Look.RUNNING)[0])
    spec = replace(job.record.spec, parameters={"++a.b-c": hostile})
    told = build_environment(
        replace(job, record=replace(job.record, spec=spec)), "k7f2"
    )
    assert "\0" not in told["AUTOEXP_PARAM_A_B_C"]
    assert told["AUTOEXP_JOB"] == job.name
    assert told["AUTOEXP_SESSION"] == "k7f2"
    assert told["AUTOEXP_NODE"] == job.record.attempts[-1].node
    assert set(build_environment(None, "")) <= set(told)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ("nid001893", ("ssh", "nid001893")),
        ("nid[001-004,7],other", ("ssh", "nid001")),
        ("r1i[0-3]n[08-9]-ib,x", ("ssh", "r1i0n08-ib")),
        (socket.gethostname(), ("/bin/sh",)),
        ("", ("/bin/sh",)),
        ("-oProxyCommand=x", ("/bin/sh",)),
        ("a b", ("/bin/sh",)),
    ],
)
def test_a_shell_is_opened_where_the_job_is(
    node: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    running = looking(Look.RUNNING)[0]
    attempts = (replace(running.record.attempts[-1], node=node),)
    job, _ = changed(running, attempts=attempts)
    where = "" if words[0] == "ssh" else job.record.spec.output_dir
    assert choose_shell(job) == (words, where)
    done = SESSION.find_job(looking(Look.DONE)[0].name)
    assert done is not None
    assert choose_shell(done)[0] == ("/bin/sh",)


async def test_without_a_terminal_to_give_away_it_is_said() -> None:
    async with cockpit() as seat:
        await seat.see("dollar_sign", footer="the shell needs a terminal")
