"""What is typed becomes a command, or is refused with the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.cockpit.render import job_questions as answers
from autoexp_tui.cockpit.render.job_questions import ask_resubmit
from autoexp_tui.cockpit.render.questions import AnswerError, Choice, Question
from autoexp_tui.cockpit.session_model import SessionModel
from autoexp_tui.cockpit.spans import plain
from autoexp_tui.cockpit.state.reasons import find_reason
from autoexp_tui.cockpit.state.session import Scope
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.conditions.kinds import FileExists
from autoexp_tui.events.events import CommandRefused
from autoexp_tui.model.commands import Resubmit, Skip, Waive
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.specs import Edge
from autoexp_tui.model.states import Cause, JobState, Why, why
from tests.cockpit.seat import cockpit
from tests.support.campaigns import campaign
from tests.support.scripted_handle import with_events, with_job


def test_time_limits_are_read_as_people_write_them() -> None:
    limits = {"90m": 5400, "12h": 43200, "1.5h": 5400, "2d": 172800, " 30 s ": 30,
              "12:00": 43200, "01:30:00": 5400, "1-12:00:00": 129600}  # fmt: skip
    assert {text: answers.parse_time_limit(text) for text in limits} == limits


@pytest.mark.parametrize("text", ["", "soon", "12", "-3h", "0m", "1h30"])
def test_what_is_no_time_limit_is_refused(text: str) -> None:
    with pytest.raises(AnswerError):
        answers.parse_time_limit(text)


@pytest.mark.parametrize("text", ["", "lr", "=3", "a=1 b", "a='x"])
def test_what_is_no_override_is_refused(text: str) -> None:
    with pytest.raises(AnswerError):
        answers.parse_overrides(text)


@pytest.mark.parametrize(
    ("choice", "text", "changes"),
    [
        ("checkpoint", "", {}),
        ("planned", "", {"from_checkpoint": False}),
        ("overrides", "a=1 'b=x y' ~c.d", {"overrides": ("a=1", "b=x y", "~c.d")}),
        ("nodes", "n1, n2", {"exclude_nodes": ("n1", "n2")}),
        ("limit", "2h", {"time_limit_seconds": 7200}),
    ],
)
def test_each_way_to_resubmit_is_its_command(
    choice: str, text: str, changes: dict[str, Any]
) -> None:
    sent = answers.build_resubmit(["a"], Choice(choice, ""), text)
    assert sent == Resubmit(jobs=("a",), **changes)


def test_a_reason_is_kept_and_what_says_too_little_is_refused() -> None:
    skip = answers.build_skip(["a", "b"], Choice("skip", ""), " too slow ")
    assert skip == Skip(jobs=("a", "b"), reason="too slow")
    waive = answers.build_skip(["a", "b"], Choice("waive:2", ""), "seen")
    assert waive == Waive(job="a", condition=2, reason="seen")
    with pytest.raises(AnswerError, match="no node"):
        answers.build_resubmit(["a"], Choice("nodes", ""), " ,")
    with pytest.raises(AnswerError, match="needs a reason"):
        answers.build_skip(["a"], Choice("waive:0", ""), "  ")


@pytest.mark.parametrize("by", ["c1", ""], ids=["sent here", "of another person"])
async def test_a_refused_command_is_told_where_it_was_sent(by: str) -> None:
    async with cockpit() as seat:
        await seat.press("P")
        refusal = CommandRefused(why=why("nothing_to_do", command="pause"))
        told = with_events(seat.handle.snapshot(), [refusal])
        newest = replace(told.events[-1], command_id=by)
        await seat.push(replace(told, events=(*told.events[:-1], newest)))
        assert ("refused: " in seat.footer) is bool(by)
        if by:
            assert seat.jobs._notice_timer is None
        await seat.press("j")
        assert "refused: " not in seat.footer


def test_r_names_whoever_ended_because_of_it_and_nobody_else() -> None:
    snapshot = chain(Cause.CANCEL_CONDITION, JobState.CANCELLED)
    assert "Brings back 1 job that was skipped because of this:" in said(snapshot)
    assert snapshot.jobs[1].name in said(snapshot)
    by_a_person = chain(Cause.USER, JobState.SKIPPED)
    assert "Brings back" not in said(by_a_person)
    ways = [one for one in asked(by_a_person).choices if one.id == "overrides"]
    assert len(ways) == 1
    assert "followers" not in ways[0].label


def chain(cause: Cause, state: JobState) -> Snapshot:
    """The first job failed; the one that depends on it ended for `cause`."""
    base = campaign(10)
    first, second = base.jobs[0], base.jobs[1]
    spec = replace(second.spec, depends_on=(first.name,))
    failed = with_job(base, first.name, state=JobState.FAILED, cause=Cause.EXIT_CODE)
    return with_job(failed, second.name, spec=spec, state=state, cause=cause)


def asked(snapshot: Snapshot) -> Question:
    session = SessionModel(snapshot).session
    question = ask_resubmit(Scope(jobs=session.jobs[:1]), session)
    assert question is not None
    return question


def said(snapshot: Snapshot) -> str:
    return "\n".join(plain(line) for line in asked(snapshot).lines)


def nan(saved: int, ill: int) -> Snapshot:
    base = campaign(10)
    return with_job(
        base,
        base.jobs[0].name,
        state=JobState.FAILED,
        cause=Cause.NAN,
        why=why("nan", metric="loss", value="nan", step=ill),
        metadata={"checkpoint_step": str(saved)},
    )


@pytest.mark.parametrize("saved", [400, 500, 600])
def test_a_checkpoint_with_the_nan_in_it_is_not_what_r_goes_on_from(saved: int) -> None:
    first = asked(nan(saved, ill=500)).choices[0]
    assert first.id == ("checkpoint" if saved < 500 else "planned")
    told = f"checkpoint {saved} was saved when the loss was nan"
    assert (told in first.label) is (saved >= 500)


@pytest.mark.parametrize(
    ("choice", "typed"),
    [("overrides", "a=1"), ("nodes", "n1"), ("limit", "2h"), ("planned", "")],
)
@pytest.mark.parametrize("saved", [400, 600])
def test_every_way_sends_the_start_that_it_tells(
    choice: str, typed: str, saved: int
) -> None:
    chosen = next(one for one in asked(nan(saved, ill=500)).choices if one.id == choice)
    sent = answers.build_resubmit(["a"], chosen, typed)
    assert isinstance(sent, Resubmit)
    fresh = "from the beginning" in chosen.label
    assert sent.from_checkpoint is not fresh
    assert fresh == (saved >= 500 or choice == "planned")


def without_file() -> Snapshot:
    base = campaign(10)
    told = Why(
        "doomed_file",
        (("path", "/o/iter_8/done.txt"), ("writer", "w"), ("state", "COMPLETED")),
    )
    return with_job(
        base,
        base.jobs[1].name,
        state=JobState.SKIPPED,
        cause=Cause.UPSTREAM,
        why=told,
    )


def test_a_file_that_its_writer_never_wrote_is_told_by_name_and_needs_a_person() -> (
    None
):
    desk = SessionModel(without_file())
    never = "iter_8/done.txt never came"
    assert find_reason(desk.session.jobs[1], desk.session) == never
    group = next(one for one in desk.groups if one.look is Look.SKIPPED)
    assert group.title == never
    assert desk.session.jobs[1].is_needy


def test_a_skip_that_a_failure_explains_is_not_told_twice() -> None:
    base = without_file()
    told = Why("doomed_file", (("path", "/o/a"), ("state", "FAILED")))
    desk = SessionModel(with_job(base, base.jobs[1].name, why=told))
    assert not any(one.look is Look.SKIPPED for one in desk.groups)


def followed() -> Snapshot:
    """The second job waits for a file of the first, which failed."""
    base = chain(Cause.USER, JobState.SKIPPED)
    first, second = base.jobs[0], base.jobs[1]
    waits = FileExists(path="/out/iter_8/done.txt", writer=first.name)
    spec = replace(second.spec, start_conditions=(waits,))
    state = {"state": JobState.WAITING, "cause": None, "start": (None,)}
    told = with_job(base, second.name, spec=spec, **state)
    assert told.plan is not None
    edge = Edge(before=first.name, after=second.name, mode="waits")
    return replace(told, plan=replace(told.plan, edges=(edge,)))


def test_r_lists_the_followers_and_what_they_will_read() -> None:
    snapshot = followed()
    assert "Wait for what it writes, and will read:" in said(snapshot)
    line = next(row for row in said(snapshot).splitlines() if "iter_8/done.txt" in row)
    assert snapshot.jobs[1].name in line
    assert "/out/iter_8/done.txt" in line


def test_r_with_other_values_asks_what_followers_do() -> None:
    choices = [one for one in asked(followed()).choices if one.id == "overrides"]
    assert [one.label.rpartition("; ")[2] for one in choices] == [
        "followers wait for its new files",
        "followers use the files that are there",
    ]
    sent = [answers.build_resubmit(["a"], one, "lr=2e-4") for one in choices]
    assert [command.use_files for command in sent] == [False, True]
