"""autoexp-sessions with sessions of every kind: one clear message, the right code."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.monitor import main as monitor
from autoexp_tui.cli.session_verbs import request as session_request
from autoexp_tui.effects.effects import CancelTasks, SubmitTasks
from autoexp_tui.engine import handle
from autoexp_tui.engine.live import make_plan_snapshot
from autoexp_tui.events import events
from autoexp_tui.model.rules import Checkpoints, Monitoring
from autoexp_tui.model.snapshot import InQueue, Live, Snapshot
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import Cause, JobState, Outcome, Result, why
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.json_codec import encode_live
from autoexp_tui.storage.live_sink import FileLiveSink, build_detail
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.user_files import note_place
from tests.cli.session_places import Place, all_ended, held_by_the_dead, held_elsewhere

RELEASED = events.JobsReleased(jobs=("wait",))


REFUSED = [
    ((), 2, "Verbs: list, show, stop"),
    (("shwo", "k7f2"), 2, "Did you mean show?"),
    (("pause",), 2, "pause: which session?"),
    (("show", "k"), 2, "there is no session 'k'"),
    (("show", "k7f2", "--reason", "none"), 2, "--reason"),
    (("show", "k7f2", "--jobs", "done"), 2, "completed"),
    (("show", "k7f2", "trian"), 2, "Did you mean train?"),
    (("show", "k7f2", "wait", "more"), 2, "'more' is one word too many"),
    (("kill", "k7f2", "wait", "--all", "--yes"), 2, "either --all or names"),
    (("kill", "k7f2", "wait"), 3, "this would kill 1 job: wait"),
    (("kill", "k7f2"), 2, "kill: which jobs?"),
    (("retry", "k7f2", "train", "--set", "lr"), 2, "--set: 'lr' is not of the form"),
    (("waive", "k7f2"), 2, "waive: a condition of which job?"),
    (("waive", "k7f2", "wait"), 2, "wait waits for several: 1, 2, 3"),
    (("waive", "k7f2", "wait", "4"), 2, "no start condition '4'"),
    (("waive", "k7f2", "train"), 2, "train does not wait: it is planned"),
    (("approve", "k7f2", "train"), 2, "train is planned, and does not ask"),
]


@pytest.mark.parametrize(("words", "code", "said"), REFUSED)
def test_what_cannot_be_done_is_one_message_with_its_code(
    place: Place, words: tuple[str, ...], code: int, said: str
) -> None:
    place.session("k7f2", RELEASED)
    found, _, err = place.say(*words)
    assert (found, said in err) == (code, True), err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ("--config-ref", "stop", "show", "k7f2", "--jobs", "failed"),
            0,
            "k7f2  small",
        ),
        (("show", "k7f"), 0, "k7f2  small"),
        (("show", "k7"), 2, "several sessions begin with 'k7': k7aa, k7f2"),
    ],
)
def test_an_id_may_be_shortened_and_an_options_value_is_no_verb(
    place: Place, words: tuple[str, ...], code: int, said: str
) -> None:
    place.session("k7f2", RELEASED)
    place.session("k7aa")
    found, out, err = place.say(*words)
    assert (found, said in out + err) == (code, True), err


def test_a_session_that_lies_elsewhere_is_told_where(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    there = Place(tmp_path / "there", place.capsys)
    there.session("k7f2")
    note_place(there.state_dir)
    code, _, err = place.say("show", "k7f2")
    assert code == 2
    assert f"--state-dir {there.state_dir}" in err


def test_a_session_that_is_closed_to_us_is_not_called_unknown(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = place.session("k7f2")
    _close(session.path, monkeypatch)
    code, _, err = place.say("show", "k7f2")
    assert code == 5
    assert "cannot read the session: Permission denied" in err


def _close(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user who is not root."""
    listdir = os.listdir

    def refusing(where: str | Path = ".") -> list[str]:
        if Path(where) == path:
            raise PermissionError(13, "Permission denied", str(where))
        return listdir(where)

    monkeypatch.setattr(os, "listdir", refusing)
    monkeypatch.setattr(SessionDir, "has_journal", lambda _: False)


SKIPPED = events.JobEnded(
    job="train", state=JobState.SKIPPED, cause=Cause.USER, why=why("skipped_by")
)
PAUSED = events.SubmissionPaused(why=why("paused_by", by="cockpit"))
SILENT = events.WarningRaised(
    warning_id="w", why=why("place_silent", place="/x", since=900.0)
)


@pytest.mark.parametrize(
    ("happened", "words", "shown", "hidden"),
    [
        (
            all_ended(),
            (),
            (
                "engine       none; the last one (host ",
                "jobs         3: 1 cancelled, 2 skipped",
                "ended by     2 what it needs ended, 1 cancelled by a person",
            ),
            "no such text",
        ),
        ([SKIPPED], (), ("ended by     1 skipped by a person",), "cancelled"),
        ([SKIPPED], ("train",), ("cause      skipped by a person",), "cancelled by"),
        (
            [PAUSED, SILENT],
            (),
            ("paused       submissions are paused by a person", "warning      "),
            "ended by",
        ),
        (
            all_ended(),
            ("--jobs", "cancelled"),
            ("cancelled    train",),
            "skipped      wait",
        ),
        ([RELEASED], ("train",), ("behind it  wait",), "cause"),
    ],
)
def test_show_says_how_things_stand(
    place: Place,
    happened: Sequence[events.Event],
    words: tuple[str, ...],
    shown: tuple[str, ...],
    hidden: str,
) -> None:
    place.session("k7f2", *happened)
    code, out, _ = place.say("show", "k7f2", *words)
    assert code == 0
    assert [text for text in shown if text not in out] == []
    assert hidden not in out


def test_show_of_a_job_tells_each_condition_with_its_number(place: Place) -> None:
    waits = why("not_there", path=str(place.root / "never"))
    judged = events.ConditionJudged(
        job="wait", role="start", index=1, result=Result.WAIT, why=waits
    )
    place.session("k7f2", RELEASED, judged)
    code, out, _ = place.say("show", "k7f2", "wait")
    assert code == 0
    assert "start 1    train COMPLETED: not looked at yet" in out
    assert f"start 2    {place.root / 'never'}: waits since" in out
    assert f"cancel 1   {place.root / 'stop'}: not looked at yet" in out


def test_show_for_programs_is_one_line_of_stable_keys(place: Place) -> None:
    place.session("k7f2", *all_ended())
    _, out, _ = place.say("show", "k7f2", "--json")
    told = json.loads(out)
    assert out.count("\n") == 1
    assert {"session", "name", "directory", "engine", "paused", "warnings"} < set(told)
    assert told["engine"]["alive"] == "no"
    assert set(told["jobs"][0]) == {
        "name", "state", "cause", "attempts", "exit_code", "why", "evidence",
        "values", "planned_values", "metrics", "runs",
    }  # fmt: skip


def test_a_job_for_programs_has_its_conditions_and_runs(place: Place) -> None:
    place.session("k7f2", RELEASED)
    _, out, _ = place.say("show", "k7f2", "wait", "--json")
    job = json.loads(out)["job"]
    assert job["start_conditions"][0]["what"] == "train COMPLETED"
    assert (job["runs"], job["state"]) == ([], "WAITING")


def test_hostile_names_reach_no_terminal(place: Place) -> None:
    place.session("k7f2", events.MessageLogged(text="x"))
    hostile = why("cancelled_by", by="\x1b[31mred", reason="\x1b]0;title\x07")
    ended = events.JobEnded(job="train", state=JobState.CANCELLED, why=hostile)
    place.session("m2aa", events.JobsReleased(jobs=("train",)), ended)
    _, out, _ = place.say("show", "m2aa")
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("told", "words", "code", "said"),
    [
        ((RELEASED,), ("stop", "k7f2"), 0, "no engine runs k7f2"),
        (all_ended(), ("restart", "k7f2"), 0, "all jobs of k7f2 have ended"),
        (
            all_ended(),
            ("kill", "k7f2", "train", "--yes"),
            1,
            "train is cancelled: there is nothing to kill",
        ),
    ],
)
def test_where_nothing_is_to_be_done_nothing_is_started(
    place: Place,
    told: Sequence[events.Event],
    words: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    session = place.session("k7f2", *told)
    before = sorted(os.listdir(session.lease))
    found, out, err = place.say(*words)
    assert (found, said in out + err) == (code, True)
    assert sorted(os.listdir(session.lease)) == before
    assert not (session.path / "heir.log").exists()


def test_pausing_twice_and_resuming_twice_is_no_failure(place: Place) -> None:
    place.session("k7f2", RELEASED)
    said = [place.say(verb, "k7f2") for verb in ("pause", "pause", "resume", "resume")]
    assert [code for code, *_ in said] == [0, 0, 0, 0]
    assert "it is paused already" in said[1][1]
    assert "it is not paused" in said[3][1]


def test_a_command_for_programs_says_what_came_of_it(place: Place) -> None:
    place.session("k7f2", RELEASED)
    code, out, _ = place.say("skip", "k7f2", "wait", "--json")
    assert code == 0
    assert json.loads(out) == {
        "session": "k7f2", "verb": "skip", "jobs": ["wait"],
        "outcome": "done", "why": "", "engine": "none",
    }  # fmt: skip


def test_kill_says_what_is_lost_since_the_checkpoint_that_lies_there(
    place: Place,
) -> None:
    saved = place.root / "out/train/iter_0000080"
    saved.mkdir(parents=True)
    noted = events.MetricsNoted(
        job="train", attempt=1, run=0, step=95, total=100, values={}
    )
    place.session("k7f2", *running(), noted, plan=with_glob(place))
    code, _, err = place.say("kill", "k7f2", "train")
    assert code == 3
    assert "Lost since its checkpoint: 15 steps, " in err
    assert err.index("Lost since") < err.index("this would kill 1 job: train")


def running() -> Sequence[events.Event]:
    """`train` runs."""
    began = time.time() - 60
    run = events.RunBegan(job="train", attempt=1, run=0, began_at=began)
    return (*in_queue(), run)


def with_glob(place: Place) -> Plan:
    """The plan, its checkpoints known by a pattern."""
    rules = Monitoring(checkpoints=Checkpoints(glob="iter_*"))
    return replace(place.plan(), monitoring=rules)


def test_a_waived_condition_counts_as_passed_and_keeps_the_reason(place: Place) -> None:
    place.session("k7f2", RELEASED)
    code, _, err = place.say("waive", "k7f2", "wait", "2", "--reason", "seen it")
    assert code == 0, err
    assert "waived since" in place.say("show", "k7f2", "wait")[1]
    assert "seen it" in place.say("show", "k7f2", "wait")[1]


@pytest.fixture
def elsewhere(place: Place, monkeypatch: pytest.MonkeyPatch) -> SessionDir:
    """A session that an engine on another host has."""
    monkeypatch.setattr(session_request, "ANSWER_SECONDS", 0.2)
    session = place.session("k7f2", RELEASED)
    held_elsewhere(session)
    return session


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ("restart", "k7f2"),
            4,
            ("may be run by host cn17", "autoexp-monitor --session k7f2", "600 s"),
        ),
        (("stop", "k7f2"), 1, ("cn17", "the command waits in its inbox")),
        (("pause", "k7f2", "--json"), 1, ('"outcome": "unanswered"',)),
        (
            ("show", "k7f2"),
            0,
            ("host cn17", "whether it lives cannot be told from here"),
        ),
    ],
)
def test_an_engine_elsewhere_may_live(
    place: Place,
    elsewhere: SessionDir,
    words: tuple[str, ...],
    code: int,
    said: tuple[str, ...],
) -> None:
    found, out, err = place.say(*words)
    assert found == code
    assert [one for one in said if one not in out + err] == []
    is_sent = words[0] in ("stop", "pause")
    assert len(list(elsewhere.inbox.glob("*.json"))) == is_sent


def test_a_kill_whose_end_nobody_confirms_is_not_called_done(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_request, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(handle, "make_command_id", lambda: "c1")
    ordered = events.EffectOrdered(
        effect_id="y", effect=CancelTasks(tasks=(("train", 1),)), cause=Cause.USER
    )
    session = place.session("k7f2", *running(), ordered, command_id="c1")
    held_elsewhere(session)
    code, out, err = place.say("kill", "k7f2", "train", "--yes")
    assert code == 1
    assert "is not confirmed" in err
    assert "done" not in out


def test_an_inbox_that_cannot_be_written_is_said(
    place: Place, elsewhere: SessionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere.inbox.rename(elsewhere.inbox.with_name("moved"))
    elsewhere.inbox.write_text("a file in its place")
    code, _, err = place.say("pause", "k7f2")
    assert code == 5
    assert "inbox" in err


def in_queue() -> list[events.Event]:
    """The first job was sent, and taken."""
    return [
        events.JobsReleased(jobs=("train",)),
        events.EffectOrdered(
            effect_id="x", effect=SubmitTasks(token="t", tasks=(("train", 1),))
        ),
        events.SubmissionAccepted(token="t", executor_ids=("7",), submitted_at=1001.0),
    ]


def test_show_of_a_job_tells_why_an_attempt_was_ended_although_a_later_one_did_well(
    place: Place,
) -> None:
    ended = events.AttemptEnded(
        job="train",
        attempt=1,
        outcome=Outcome.FAILED,
        cause=Cause.KILL_CRITERION,
        why=why("restart_ordered", rule="no_progress"),
    )
    again = events.RetryOrdered(
        job="train", wait_seconds=0.0, from_checkpoint=True, why=why("retry")
    )
    place.session("k7f2", *in_queue(), ended, again)
    _, out, _ = place.say("show", "k7f2", "train")
    _, told, _ = place.say("show", "k7f2", "train", "--json")
    reason = "the rule no_progress ends this run and starts it again"
    assert f"           why: {reason}" in out
    assert json.loads(told)["job"]["runs"][0]["why"] == reason


def test_show_of_a_job_tells_who_ordered_each_attempt(place: Place) -> None:
    crashed = events.AttemptEnded(
        job="train", attempt=1, outcome=Outcome.FAILED, cause=Cause.EXIT_CODE
    )
    again = events.RetryOrdered(
        job="train",
        wait_seconds=0.0,
        from_checkpoint=True,
        why=why("retry", reason="crashed", attempt=2),
    )
    sent = events.EffectOrdered(
        effect_id="y", effect=SubmitTasks(token="u", tasks=(("train", 2),))
    )
    place.session("k7f2", *in_queue(), crashed, again, sent)
    _, out, _ = place.say("show", "k7f2", "train")
    _, told, _ = place.say("show", "k7f2", "train", "--json")
    reason = "runs again as attempt 2: crashed"
    assert out.count(f"           ordered: {reason}") == 1
    runs = json.loads(told)["job"]["runs"]
    assert [run["ordered_why"] for run in runs] == ["", reason]


def asked_in_the_queue(place: Place, session: SessionDir, seq: int) -> Snapshot:
    """What an engine publishes of a job in the queue, as of a record."""
    plan = make_plan_snapshot(place.plan())
    engine = replace(
        plan.engine,
        role="live",
        epoch=load_state(session).state.epoch,
        executor="slurm",
        executor_answered_at=SystemClock().utc() - 14,
    )
    queued = Live(queue=InQueue("waits for nodes", 4e9, "gpu"))
    return replace(plan, seq=seq, engine=engine, live=(queued, None, None))


def test_show_gets_the_queues_reason_by_watching_for_a_moment(place: Place) -> None:
    session = place.session("k7f2", *in_queue(), released=False)
    sink = FileLiveSink(session, SystemClock())
    sink.publish(asked_in_the_queue(place, session, load_state(session).state.seq))
    try:
        _, out, _ = place.say("show", "k7f2", "--jobs", "queued")
    finally:
        sink.close()
    assert "train  in the queue: waits for nodes, partition gpu, expected start" in out
    assert "executor     slurm, answered 1" in out
    assert list(session.viewers.iterdir()) == []


def test_show_does_not_tell_what_the_journal_has_left_behind(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_request, "PROBE_SECONDS", 0.1)
    session = place.session("k7f2", *in_queue(), released=False)
    newest = load_state(session).state.seq
    detail = build_detail(asked_in_the_queue(place, session, newest - 1))
    session.live.write_bytes(encode_live(detail))
    _, out, _ = place.say("show", "k7f2", "--jobs", "queued")
    assert "queued       train" in out
    assert "waits for nodes" not in out


def test_a_command_after_an_engines_death_is_carried_out_here(place: Place) -> None:
    session = place.session("k7f2", RELEASED)
    held_by_the_dead(session)
    assert "ended unexpectedly" in place.say("show", "k7f2")[1]
    code, out, err = place.say("skip", "k7f2", "wait")
    assert code == 0, err
    assert "no engine runs this session now" in out
    assert f"autoexp-sessions restart k7f2 --state-dir {place.state_dir}" in out


@pytest.mark.parametrize(
    "words", [("approve", "k7f2"), ("reject", "k7f2"), ("waive", "k7f2", "wait", "2")]
)
def test_a_job_may_not_decide_what_a_person_is_asked(
    place: Place, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    place.session("k7f2", RELEASED)
    attempt = place.state_dir / "k7f2" / "attempts" / "train" / "1"
    monkeypatch.setenv("AUTOEXP_ATTEMPT_DIR", str(attempt))
    code, _, err = place.say(*words)
    assert code == 3
    assert f"{words[0]}: this process is a job's (attempt 1 of train" in err
    assert "Answer from a cockpit or a shell of your own." in err


def test_a_job_may_bring_approvals_neither_here_nor_to_an_engine(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.session("k7f2", RELEASED)
    monkeypatch.setenv("AUTOEXP_ATTEMPT_DIR", "/elsewhere/attempts/train/1")
    words = ["--session", "k7f2", "--state-dir", str(place.state_dir)]
    assert run_guarded(monitor, [*words, "--approve", "all"]) == 3
    assert "--approve: this process is a job's" in place.capsys.readouterr().err
    code, _, err = place.say("restart", "k7f2", "--approve", "all")
    assert code != 0
    assert "--approve: this process is a job's" in err
