"""Questions that are no job's: a policy asks, people and `--approve` answer."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.headless import Watching, finish, is_over
from autoexp_tui.cockpit import app, keymap
from autoexp_tui.events import events
from autoexp_tui.model import kinds
from autoexp_tui.model.commands import AnswerAsk, Sender
from autoexp_tui.model.event import fold
from autoexp_tui.model.ids import digest_question
from autoexp_tui.model.policy import Policy, list_ask_names
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.journal import decode_record, encode_record
from tests.cli.test_headless import told
from tests.cockpit.seat import cockpit
from tests.engine.bench import Bench
from tests.extending.conftest import ENTRY_POINTS, HERE, bench
from tests.extending.tally import Tally
from tests.extending.vote import CallVote, Vote
from tests.extending.vote_screen import ROWS
from tests.model.builders import job, plan
from tests.support.campaigns import all_done

LINES = ("ada", "bob", "cyd")
VOTE = (
    ("policy.research", f"{HERE}.vote:VotePolicy"),
    ("event.VoteCalled", f"{HERE}.vote:VoteCalled"),
    ("event.VoteCounted", f"{HERE}.vote:VoteCounted"),
    ("command.call_vote", f"{HERE}.vote:CallVote"),
)


@pytest.fixture(autouse=True)
def voting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The voting policy has the place, and the mode, of the research loop."""
    ours = kinds.KindTable[Policy]("policy", {})
    monkeypatch.setattr(Policy, "kinds", ours)
    monkeypatch.delitem(app.SCREENS, "research")
    monkeypatch.setattr(kinds, "list_installed", lambda: (*ENTRY_POINTS, *VOTE))


def asking() -> Bench:
    """The only job has ended, and the question stands."""
    one = bench(plan(job("a")))
    one.order(CallVote(lines=LINES))
    one.until(lambda: one.job("a").ended)
    one.run(2)
    return one


def answer(*lines: str, **fields: object) -> AnswerAsk:
    """The answer of somebody who read these lines, and keeps all that are known."""
    dropped = tuple(at for at, line in enumerate(LINES) if line not in lines)
    given = {
        "ask": "vote/1",
        "digest": digest_question("vote/1", "Elect these?", lines),
        "approved": True,
        "dropped": dropped,
    }
    return AnswerAsk(**(given | fields))  # type: ignore[arg-type]


def test_a_question_is_asked_once_outlives_engines_and_keeps_the_session_open() -> None:
    one = asking()
    one.die(gone_for=5)
    one.run(2)
    assert len(one.happened(events.AskRaised)) == 1
    before = one.snapshots[-1]
    one.order(answer("ada", "cyd", reason="bob is away"))
    one.run(1)
    after = one.snapshots[-1]
    assert (before.open, after.open) == (True, False)
    assert one.engine.state.parts["research"] == Vote(LINES, ("ada", "cyd"))
    records = [decode_record(encode_record(r)) for r in one.world.session.records]
    state = fold(SessionState(plans=one.world.session.plans), records)
    assert state.asks == one.engine.state.asks == after.asks
    (given,) = one.happened(events.AskAnswered)
    headline = given.format_headline(0.0)
    assert headline.verb == "approved"
    assert headline.about.startswith("vote/1, without 1 line, by ")
    assert headline.about.endswith(": bob is away")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (answer(*LINES, ask="vote/2"), "no_such_ask"),
        (answer("ada", "dan"), "other_lines"),
        (answer(*LINES, dropped=(1,)), "other_lines"),
        (answer(), "nothing_kept"),
        (answer("ada", approved=False), "nothing_kept"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_with_the_reason(
    command: AnswerAsk, code: str
) -> None:
    one = asking()
    one.order(command)
    one.run(1)
    (refusal,) = one.happened(events.CommandRefused)
    assert (refusal.why.code, refusal.why.arg("ask")) == (code, command.ask)
    assert one.engine.state.asks["vote/1"].approved is None


def test_an_answered_question_takes_no_other_answer_and_no_job_s() -> None:
    one = asking()
    one.order(answer(*LINES), sender=Sender(job="attempt 1 of a"))
    one.order(answer(*LINES, approved=False))
    one.order(answer(*LINES))
    one.run(1)
    codes = [event.why.code for event in one.happened(events.CommandRefused)]
    assert codes == ["sender_is_job", "answered_before"]
    assert one.engine.state.parts["research"].elected == ()


@pytest.mark.parametrize("named", ["vote", "vote/1", "*"])
def test_a_question_may_be_approved_beforehand_and_on_resuming(named: str) -> None:
    one = asking()
    one.world.auto_approve = frozenset({"other"})
    one.die(gone_for=5)
    one.run(2)
    assert one.snapshots[-1].open
    one.world.auto_approve = frozenset({named})
    one.die(gone_for=5)
    one.run(2)
    assert one.engine.state.parts["research"].elected == LINES
    (given,) = one.happened(events.AskAnswered)
    assert given.policy == f"--approve {named.replace('*', 'all')}"
    assert "vote" in list_ask_names()


def test_a_run_without_a_screen_waits_for_the_answer_or_ends_with_its_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    snapshot = asking().snapshots[-1]
    assert not is_over(snapshot, Watching())
    assert is_over(snapshot, Watching(wait_for_approval=False))
    assert finish(snapshot, as_json=True) == ExitCode.JOBS_NOT_COMPLETED
    out, err = capsys.readouterr()
    assert json.loads(out)["jobs"][0]["state"] == "COMPLETED"
    assert "1 question waits for approval. Answer and resume:" in err
    lines = "\n".join(told(snapshot))
    assert "vote/1: Elect these?\n    1  ada\n    2  bob\n" in lines
    assert re.search(r"autoexp-sessions approve .*vote/1( |$)", lines)
    assert told(snapshot, snapshot) == []


def voting_now() -> Snapshot:
    """A campaign with the vote and its question."""
    asked = asking().snapshots[-1]
    return replace(all_done(4), parts=asked.parts, asks=asked.asks)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The voting policy has the screen of mode 7, and keys of its own."""
    own = {one.id: one for one in keymap._read_rows(ROWS)}
    all_ours = keymap.COMMANDS.items()
    rest = {name: one for name, one in all_ours if not name.startswith("research.")}
    monkeypatch.setattr(keymap, "COMMANDS", {**rest, **own})
    home = "tests.extending.vote_screen:VoteScreen"
    monkeypatch.setitem(app.SCREENS, "research", home)


@pytest.mark.usefixtures("screen")
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_policy_s_own_screen_is_one_file_a_row_and_its_keys(
    size: tuple[int, int],
) -> None:
    async with cockpit(voting_now(), size) as seat:
        await seat.see("7", research="━ 7 Vote|> ada", footer="A approve  I add")
        await seat.see("j d", research="> bob", footer="3 lines")
        await seat.see("enter", footer="opened bob")
        await seat.play("a i x r")  # the twins of what acts
        assert not seat.dialog
        await seat.see("?", dialog="Here, in research|add")
        await seat.order("escape A hear j space y", answer("ada", "cyd"))
        await seat.see("I hear 'dan enter", dialog="Add a line?|y add it")
        await seat.order("hear y", CallVote(lines=(*LINES, "dan")))
        await seat.see("escape", focus="jobs")
    async with cockpit(voting_now(), size, handle_read_only=True) as seat:
        await seat.see("7 A", research="> ada", footer="read only")
        assert not seat.dialog


@pytest.mark.usefixtures("screen")
async def test_a_mode_and_its_keys_are_there_for_sessions_with_that_part_alone() -> (
    None
):
    async with cockpit() as seat:
        await seat.see("? ", dialog="Keys|!mode.tree|!mode.research|!research.add")
        await seat.play("escape 6 7")
        assert seat.app.current_mode == "jobs"
        await seat.push(voting_now())
        await seat.see("?", dialog="!mode.tree")
        await seat.see("escape 7", research="> ada")


async def test_a_policy_without_a_screen_shows_lines_and_is_answered_there() -> None:
    shown = voting_now()
    parts = {**shown.parts, "tally": Tally(2)}
    async with cockpit(replace(shown, parts=parts)) as seat:
        await seat.see("7", policy="━ Vote|ada", footer="A answer")
        await seat.order("A hear x", replace(answer(*LINES), approved=False))
        await seat.see(": 'tally enter", policy="0 of 2")
        await seat.see("escape", focus="jobs")
