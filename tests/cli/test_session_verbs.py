"""autoexp-sessions with sessions of every kind: one clear message, the right code."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoexp_tui.cli import monitor, run
from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.session_verbs import request as session_request
from autoexp_tui.conditions.files import FileExists
from autoexp_tui.effects.effects import CancelTasks
from autoexp_tui.engine import handle
from autoexp_tui.engine.live import make_plan_snapshot
from autoexp_tui.events import events
from autoexp_tui.model.ids import digest_question
from autoexp_tui.model.snapshot import InQueue, Live, Snapshot
from autoexp_tui.model.specs import Edge
from autoexp_tui.model.states import Cause, JobState, Outcome, Result, why
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.done_file import read_done
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.live_sink import FileLiveSink
from autoexp_tui.storage.output_dir_lock import read_owner
from autoexp_tui.storage.session_dir import SessionDir
from tests.cli.session_places import (
    Place,
    all_ended,
    held_by,
    held_elsewhere,
    in_queue,
    ordered,
)

RELEASED = events.JobsReleased(jobs=("wait",))
ENDED = "train is cancelled: there is nothing to kill"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("", 2, "Verbs: list, show, results"),
        ("shwo k7f2", 2, "did you mean `show`?"),
        ("pause", 2, "pause: which session?"),
        ("show x", 2, "there is no session 'x'"),
        ("show k7f2 --reason none", 2, "--reason"),
        ("show k7f2 --jobs done", 2, "completed"),
        ("show k7f2 trian", 2, "did you mean `train`?"),
        ("show k7f2 wait more", 2, "'more' is one word too many"),
        ("kill k7f2 wait --all --yes", 2, "kill: which jobs?"),
        ("kill k7f2 wait", 3, "this would kill 1 job: wait"),
        ("kill k7f2", 2, "kill: which jobs?"),
        ("retry k7f2 train --set lr", 2, "'lr' is neither an option nor an override"),
        ("waive k7f2", 2, "waive: a condition of which job?"),
        ("waive k7f2 wait", 2, "unmet: 1: train COMPLETED; 2: "),
        ("waive k7f2 wait 4", 2, "unmet: 1: train COMPLETED; 2: "),
        ("waive k7f2 train", 2, "which start condition of train?"),
        ("approve k7f2 train", 2, "none of these jobs asks for approval"),
        ("show k7f", 0, "k7f2  small"),
        ("show k7", 2, "several sessions begin with 'k7': k7aa, k7f2"),
        ("results", 2, "results: of which session?"),
        ("results k7f2 --stage trian", 2, "did you mean `train`?"),
        ("results k7f2 --metric loss --csv --json", 2, "one at a time"),
        ("results k7f2 --metric los", 2, "no job of this stage has told 'los'"),
        ("results k7f2 --by lr", 2, "no job of this stage sets 'lr'"),
        ("results k7f2 k7aa --stage train", 0, "cancelled: cancelled by a person"),
        ("stop k7f2", 0, "no engine runs k7f2"),
        ("restart k7aa", 0, "all jobs of k7aa have ended"),
        ("kill k7aa train --yes", 1, ENDED),
    ],
)
def test_words_have_one_answer_and_a_code_and_start_nothing(
    place: Place, words: str, code: int, said: str
) -> None:
    sessions = [place.session("k7f2", RELEASED), place.session("k7aa", *all_ended())]
    before = [sorted(os.listdir(session.lease)) for session in sessions]
    assert said in place.told(*words.split(), code=code)
    assert [sorted(os.listdir(session.lease)) for session in sessions] == before
    assert not list(place.state_dir.glob("*/heir.log"))


def test_the_directory_of_a_session_names_it_too(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.session("k7f2", RELEASED)
    monkeypatch.chdir(place.state_dir)
    assert "k7f2  small" in place.told("show", "./k7f2/")
    told = place.told("show", str(place.root / "else" / "k7f2"), code=2)
    assert f"there is no session 'k7f2' in {place.root / 'else'}" in told


def test_a_session_closed_to_us_is_not_called_unknown(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, listdir = place.session("k7f2").path, os.listdir

    def refusing(where: str | Path = ".") -> list[str]:  # as for who is not root
        if Path(where) == path:
            raise PermissionError(13, "Permission denied", str(where))
        return listdir(where)

    monkeypatch.setattr(os, "listdir", refusing)
    monkeypatch.setattr(SessionDir, "has_journal", lambda _: False)
    told = place.told("show", "k7f2", code=5)
    assert "cannot read the session: Permission denied" in told


SKIPPED = events.JobEnded(
    job="train", state=JobState.SKIPPED, cause=Cause.USER, why=why("skipped_by")
)
HOSTILE = events.JobEnded(
    job="train",
    state=JobState.CANCELLED,
    why=why("cancelled_by", by="\x1b[31mred", reason="\x1b]0;title\x07"),
)
PAUSED = events.SubmissionPaused(why=why("paused_by", by="cockpit"))
SILENT = events.WarningRaised(
    warning_id="w", why=why("place_silent", place="/x", since=900.0)
)
MISSING = why("not_there", path="/never")
JUDGED = events.ConditionJudged(
    job="wait", role="start", index=1, result=Result.WAIT, why=MISSING
)


@pytest.mark.parametrize(
    ("happened", "words", "shown", "hidden"),
    [
        (
            all_ended(),
            "",
            "engine       none; the last one (host |jobs         3: 1 cancelled, 2 "
            "skipped|ended by     2 what it needs ended, 1 cancelled by a person",
            "\x1b",
        ),
        ([SKIPPED], "", "ended by     1 skipped by a person", "cancelled"),
        (
            [SKIPPED],
            "train",
            "skipped since|   output|{root}/out/train",
            "X skips",
        ),
        (
            [PAUSED, SILENT],
            "",
            "paused       submissions are paused by a person|warning      ",
            "ended by",
        ),
        (all_ended(), "--jobs cancelled", "cancelled    train", "skipped      wait"),
        ([HOSTILE], "train", "cancelled since", "\x1b"),
        ([HOSTILE], "", "train", "\x1b"),
        (
            [RELEASED, JUDGED],
            "wait",
            "· train COMPLETED: nobody has looked yet|◌ |/never: |since |"
            "ends it when: |/stop  nobody has looked yet",
            "cause",
        ),
    ],
)
def test_show_says_how_things_stand(
    place: Place, happened: Sequence[events.Event], words: str, shown: str, hidden: str
) -> None:
    place.session("k7f2", *happened)
    out = place.told("show", "k7f2", *words.split())
    expected = shown.format(root=place.root).split("|")
    assert [text for text in expected if text not in out] == []
    assert hidden not in out


def test_show_for_programs_has_stable_keys(place: Place) -> None:
    place.session("k7f2", *all_ended())
    told = place.json("show", "k7f2")
    assert {"session", "name", "directory", "engine", "paused", "warnings"} < set(told)
    assert told["engine"]["alive"] == "no"
    assert set(told["jobs"][0]) == {
        "name", "state", "cause", "attempts", "exit_code", "why", "asked_by",
        "evidence", "values", "planned_values", "metrics", "runs",
    }  # fmt: skip
    place.session("m2aa", RELEASED)
    job = place.json("show", "m2aa", "wait")["job"]
    assert job["start_conditions"][0]["what"] == "train COMPLETED"
    assert (job["runs"], job["state"]) == ([], "WAITING")


def test_commands_without_an_engine_are_carried_out_here_and_told(place: Place) -> None:
    held_by(place.session("k7f2", RELEASED), started="1")  # a process that is gone
    assert "ended unexpectedly" in place.told("show", "k7f2")
    said = [place.told(verb, "k7f2") for verb in ("pause", "pause", "resume", "resume")]
    assert "it is paused already" in said[1]
    assert "it is not paused" in said[3]
    place.told("waive", "k7f2", "wait", "2", "--reason", "seen it")
    shown = place.told("show", "k7f2", "wait")
    assert "never: waived: " in shown
    assert "seen it" in shown
    out = place.told("skip", "k7f2", "wait")
    assert "no engine runs this session now" in out
    assert f"autoexp-sessions restart k7f2 --state-dir {place.state_dir}" in out
    assert place.json("skip", "k7f2", "asks") == {
        "session": "k7f2", "verb": "skip", "jobs": ["asks"],
        "outcome": "done", "why": "", "engine": "none",
    }  # fmt: skip


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither an answer nor what an engine would tell is waited for."""
    monkeypatch.setattr(session_request, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(session_request, "PROBE_SECONDS", 0.1)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("words", "code", "said", "sent"),
    [
        (
            "restart k7f2",
            4,
            ("may be run by host cn17", "autoexp-monitor --session k7f2", "600 s"),
            0,
        ),
        ("stop k7f2", 1, ("cn17", "the command waits in its inbox"), 1),
        ("pause k7f2 --json", 1, ('"outcome": "unanswered"',), 1),
        ("show k7f2", 0, ("host cn17", "whether it lives cannot be told from here"), 0),
    ],
)
def test_an_engine_elsewhere_may_live(
    place: Place, words: str, code: int, said: tuple[str, ...], sent: int
) -> None:
    session = place.session("k7f2", RELEASED)
    held_elsewhere(session)
    told = place.told(*words.split(), code=code)
    assert [one for one in said if one not in told] == []
    assert len(list(session.inbox.glob("*.json"))) == sent
    session.inbox.rename(session.inbox.with_name("moved"))
    session.inbox.write_text("a file in its place")
    assert "inbox" in place.told("pause", "k7f2", code=5)


@pytest.mark.usefixtures("impatient")
def test_a_kill_whose_end_nobody_confirms_is_not_called_done(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handle, "make_command_id", lambda: "c1")
    cancel = CancelTasks(tasks=(("train", 1),))
    order = events.EffectOrdered(effect_id="y", effect=cancel, cause=Cause.USER)
    run = events.RunBegan(job="train", attempt=1, run=0, began_at=time.time() - 60)
    held_elsewhere(place.session("k7f2", *in_queue(), run, order, command_id="c1"))
    told = place.told("kill", "k7f2", "train", "--yes", code=1)
    assert "is not confirmed" in told
    assert "done" not in told


def test_show_of_a_job_tells_why_each_attempt_was_ordered_and_ended(
    place: Place,
) -> None:
    ended = events.AttemptEnded(
        job="train",
        attempt=1,
        outcome=Outcome.FAILED,
        cause=Cause.KILL_CRITERION,
        why=why("restart_ordered", rule="no_progress"),
    )
    reason = why("retry", reason="crashed", attempt=2)
    again = events.RetryOrdered(
        job="train", wait_seconds=0.0, from_checkpoint=True, why=reason
    )
    place.session("k7f2", *in_queue(), ended, again, ordered(2))
    out = place.told("show", "k7f2", "train")
    runs = place.json("show", "k7f2", "train")["job"]["runs"]
    ends = "the rule no_progress ends this run and starts it again"
    assert "attempt 1  7, failed, kill criterion" in out
    assert runs[0]["why"] == ends
    orders = "runs again as attempt 2: crashed"
    assert out.count(orders) == 1
    assert [run["ordered_why"] for run in runs] == ["", orders]


def asked_in_the_queue(place: Place, session: SessionDir) -> Snapshot:
    """What an engine publishes of a job in the queue."""
    state, plan = load_state(session).state, make_plan_snapshot(place.plan())
    engine = replace(
        plan.engine,
        role="live",
        epoch=state.epoch,
        executor="slurm",
        executor_answered_at=SystemClock().utc() - 14,
    )
    queued = Live(queue=InQueue("waits for nodes", 4e9, "gpu"))
    live = (queued, None, None)
    return replace(plan, seq=state.seq, engine=engine, live=live)


def test_show_gets_the_queues_reason_by_watching_for_a_moment(place: Place) -> None:
    session = place.session("k7f2", *in_queue(), released=False)
    sink = FileLiveSink(session, SystemClock())
    sink.publish(asked_in_the_queue(place, session))
    try:
        out = place.told("show", "k7f2", "--jobs", "queued")
    finally:
        sink.close()
    assert "train  in the queue: waits for nodes, partition gpu, expected start" in out
    assert "executor     slurm, answered 1" in out
    assert list(session.viewers.iterdir()) == []


def test_a_job_may_neither_decide_what_a_person_is_asked_nor_bring_approvals(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.session("k7f2", RELEASED)
    attempt = place.state_dir / "k7f2" / "attempts" / "train" / "1"
    monkeypatch.setenv("AUTOEXP_ATTEMPT_DIR", str(attempt))
    for words in ("approve k7f2", "reject k7f2", "waive k7f2 wait 2"):
        told = place.told(*words.split(), code=3)
        verb = words.split()[0]
        assert f"{verb}: this process is a job's (attempt 1 of train" in told
        assert "Answer from a cockpit or a shell of your own." in told
    monkeypatch.setenv("AUTOEXP_ATTEMPT_DIR", "/elsewhere/attempts/train/1")
    session = ["--session", "k7f2", "--state-dir", str(place.state_dir)]
    assert run_guarded(monitor.main, [*session, "--approve", "all"]) == 3
    refused = "--approve: this process is a job's"
    assert refused in place.capsys.readouterr().err
    code, _, err = place.say("restart", "k7f2", "--approve", "all")
    assert (code != 0, refused in err) == (True, True)


TITLE, LINES = "Close depth 2?", ("keep e3", "drop e5\x1b[2J")
ASKED = events.AskRaised(
    ask="beam", digest=digest_question("beam", TITLE, LINES), title=TITLE, lines=LINES
)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("approve k7f2 baem", 2, "did you mean `beam`?"),
        ("approve k7f2 train", 2, "none of these jobs or questions asks"),
        ("approve k7f2 beam --drop 3", 2, "beam has no line 3: it has 2 lines"),
        ("approve k7f2 train --drop 1", 2, "--drop: of which question?"),
        ("reject k7f2 beam --drop 1", 2, "--drop"),
        ("approve k7f2 beam --drop 1 --drop 2", 1, "refused: nothing was done"),
        ("approve k7f2 beam --drop 2", 0, "- dropped  drop e5"),
        ("reject k7f2", 0, "beam: Close depth 2?"),
    ],
)
def test_a_question_that_is_no_job_s_is_shown_and_answered_by_its_lines(
    place: Place, words: str, code: int, said: str
) -> None:
    session = place.session("k7f2", *all_ended(), ASKED)
    assert place.json("list")[0]["needs"] == {"asks": 1}
    shown = place.told("show", "k7f2")
    assert "asks         beam: Close depth 2?" in shown
    assert "  2  drop e5" in shown
    told = place.told(*words.split(), code=code)
    assert said in told
    assert "\x1b" not in shown + told
    ask = load_state(session).state.asks["beam"]
    verb, dropped = words.split()[0], (1,) if "--drop" in words else ()
    given = (verb == "approve", dropped) if code == 0 else (None, ())
    assert (ask.approved, ask.dropped) == given


READS = "Wait for what it writes, and will read:"
ANEW = "They wait until it is written anew"
SAME = "It writes into the same directory: {root}/out/train"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("given", "shown", "hidden"),
    [
        ("", (READS, "{root}/iter_8"), ("written anew", "same directory")),
        ("--set lr=2e-4", (ANEW, SAME), ()),
        ("--set lr=2e-4 --followers use", ("They read what lies there by now.",), ()),
    ],
)
def test_retry_says_what_followers_will_read_and_where_it_writes(
    place: Place, given: str, shown: tuple[str, ...], hidden: tuple[str, ...]
) -> None:
    plan = place.plan()
    waits = FileExists(path=str(place.root / "iter_8"), writer="train")
    jobs = (plan.jobs[0], replace(plan.jobs[1], start_conditions=(waits,)))
    edge = Edge(before="train", after="wait", mode="waits")
    happened = [
        *in_queue(),
        events.RunBegan(job="train", attempt=1, run=0, began_at=1.0),
        events.AttemptEnded(job="train", attempt=1, outcome=Outcome.FAILED),
        events.JobEnded(job="train", state=JobState.FAILED, cause=Cause.EXIT_CODE),
    ]
    plan = replace(plan, jobs=jobs, edges=(edge,))
    place.session("k7f2", *happened, plan=plan, released=False)
    said = place.say("retry", "k7f2", "train", *given.split())[2]
    assert [one for one in shown if one.format(root=place.root) not in said] == []
    assert [one for one in hidden if one in said] == []


def test_a_job_tried_again_with_another_value_is_known_by_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.root)
    monkeypatch.setenv("AUTOEXP_STATE_DIR", str(place.state_dir))
    script = "echo 'lm loss: ${lr}'; test ${lr} != 0.0001"
    config = {
        "project": {"name": "job", "base_output_dir": "out"},
        "backend": {"class_name": "Bash", "script": script},
        "slurm": {"client": {"class_name": "LocalClient"}},
        "lr": 1e-4,
        "sweep": {"params": {"lr": [1e-4]}},
    }
    (place.root / "config").mkdir()
    (place.root / "config" / "exp.yaml").write_text(yaml.safe_dump(config))

    def again(*words: str, code: int = 0) -> Any:
        assert run_guarded(run.main, [*words, "--json", "--yes"]) == code
        return json.loads(place.capsys.readouterr().out.splitlines()[-1])

    session = again("--config-ref", "exp", code=1)["session"]
    told = place.told("retry", session, "job", "--set", "lrr=5e-4", code=1)
    assert "refused: " in told
    assert "lrr" in told
    place.told("retry", session, "job", "--set", "lr=5e-4")
    again("--session", session)
    runs = place.json("show", session, "job")["job"]["runs"]
    assert [one["values"]["lr"] for one in runs] == [1e-4, 5e-4]
    assert [one["metrics"]["values"]["loss"] for one in runs] == [1e-4, 5e-4]
    (brief,) = place.json("show", session)["jobs"]
    assert (brief["values"], brief["planned_values"]) == ({"lr": 5e-4}, {"lr": 1e-4})
    assert (brief["metrics"], brief["runs"]) == (runs[1]["metrics"], runs)
    home = place.root / "out" / "job"
    resolved = (home / "provenance" / "resolved_config.yaml").read_text()
    assert yaml.safe_load(resolved)["lr"] == 5e-4
    overrides = (home / "provenance" / "overrides.txt").read_text().splitlines()
    assert overrides == ["lr=0.0001", "lr=5e-4"]
    owner, done = read_owner(home), read_done(home)
    first, second = (one["fingerprint"] for one in runs)
    assert owner is not None
    assert done is not None
    assert owner.fingerprint == done.fingerprint == second != first
    (job,) = again("--config-ref", "exp", code=1)["jobs"]  # as planned
    assert job["attempts"] == 1
