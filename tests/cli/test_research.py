"""autoexp-research, and how the end of a research is told."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cli import research
from autoexp_tui.cli.assemble import build_adapters, start_session
from autoexp_tui.cli.headless import Watching, finish, is_over
from autoexp_tui.cli.options import Options, parse_options
from autoexp_tui.cli.session_verbs import job_verbs
from autoexp_tui.cli.session_verbs.request import Request
from autoexp_tui.config.planning import ChildPlanner
from autoexp_tui.events.jobs import JobsReleased
from autoexp_tui.model.agents import AgentSpec, Outcome
from autoexp_tui.model.errors import UsageError, ValidationFailed
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import JobState, why
from autoexp_tui.research.events import ResearchBegun, ResearchOpened, ResearchStopped
from autoexp_tui.research.ports import CallResult
from autoexp_tui.research.state import research_of
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.session_dir import SessionDir
from tests.cli.session_places import Place, all_ended
from tests.consultation.one_research import OneResearch
from tests.model.builders import plan
from tests.research.fake_laboratory import FakeLaboratory, answer
from tests.research.test_decide import answer_in_turn, begin, items, runs


def test_an_option_wins_over_the_key_of_its_name() -> None:
    words = ["--goal", "a, b", "--budgets-calls", "3", "--objective-mode", "max"]
    _, args = parse_options("x", "", words, research._list_flags())
    assert [*research._SET.list_overrides(args)] == [
        "++research.goal='a, b'",
        "++research.objective.mode=max",
        "++research.budgets.calls=3",
    ]


def test_the_end_is_one_line_of_json_and_an_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    laboratory = FakeLaboratory(answer_in_turn(answer(*items("r1"))))
    bench = begin(laboratory, {"r1_run": runs(2, loss=0.5)})
    assert research.tell_end(bench.snapshots[-1], as_json=True) is None
    bench.run(80)
    assert research.tell_end(bench.snapshots[-1], as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert finish(bench.snapshots[-1], as_json=True) == 0  # as autoexp-run tells it
    assert told["reason"] in json.loads(capsys.readouterr().out)["stopped"]
    assert told["runs"] == {"completed": 1}
    assert told["best"] == {"run": "r1", "value": 0.5}
    assert (told["stopped"], told["calls"]["research"]) == ("nothing_left", 3)
    assert research.tell_end(bench.snapshots[-1], as_json=False) == 0
    assert "best r1: loss 0.5" in capsys.readouterr().out


def test_without_agents_it_is_over_at_once_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    missing = CallResult(outcome=Outcome.NOT_FOUND, problem="no program x")
    bench = begin(FakeLaboratory(answer_in_turn(missing)))
    bench.until(lambda: is_over(bench.snapshots[-1], Watching()), 60.0)
    assert finish(bench.snapshots[-1], as_json=True) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["stopped"].startswith("no agent can be called: no program x")
    assert "Go on with:\n  autoexp-research --session " in err


def test_a_note_needs_words() -> None:
    options, args = parse_options("x", "", [])
    request = Request(verb="note", words=("k7f2",), args=args, options=options)
    with pytest.raises(UsageError, match="what is the agent to be told"):
        job_verbs.note(request)


def test_research_that_cannot_begin_in_its_repository_makes_no_session(
    tmp_path: Path,
) -> None:
    one = OneResearch(tmp_path, AgentSpec(backend="codex"))
    one.make_repository()
    (one.top / "new.py").touch()
    with pytest.raises(ValidationFailed, match="research cannot begin"):
        start_session(one.laboratory.plan, lambda _: None, Options())
    assert [*tmp_path.iterdir()] == [one.top.parent]


class ResearchPlace(Place):
    """Sessions whose plan has a research loop."""

    def plan(self) -> Plan:
        section = {"goal": "less loss", "agent": ["a"]}
        return replace(super().plan(), research=section)


def test_a_session_without_an_engine_takes_notes_and_requests_and_begins_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ResearchPlace(tmp_path, capsys)
    where = str(tmp_path / "research")
    opened = ResearchOpened(
        directory=where, python="python", gpus=0, metric="loss", mode="min"
    )
    ready = JobsReleased(jobs=("train",))
    session = place.session("k7f2", ready, ResearchBegun(), opened)
    told = place.told("note", "k7f2", "try", "smaller", "batches")
    assert "no engine runs this session now" in told
    place.told("consult", "k7f2")
    state = load_state(session).state
    assert state.jobs["train"].state is JobState.WAITING
    made = research_of(state)
    assert not made.consultations
    assert [note.text for note in made.notes] == ["try smaller batches"]
    assert made.triggers[-1].kind == "person"
    Place(tmp_path, capsys).session("k7aa", *all_ended())
    assert "k7aa has no research loop" in place.told("consult", "k7aa", code=2)


def test_why_a_research_has_ended_is_shown_to_its_last_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, hint = ResearchPlace(tmp_path, capsys), f"{'x' * 900}. Commit it: git commit"
    broken = ResearchStopped(why=why("research_broken", problem=hint))
    place.session("k7f2", *all_ended(), ResearchBegun(), broken)
    assert hint in place.told("show", "k7f2")


@pytest.mark.parametrize("section", ["research", "tree"])
def test_colleagues_who_watch_reach_the_logs_below_a_policy_s_directory(
    tmp_path: Path, section: str
) -> None:
    asked: dict[str, Any] = {section: {"goal": "less"}}
    shared = replace(plan(), share="group", **asked)
    build_adapters(SessionDir(tmp_path), shared, ChildPlanner(), dict)
    assert stat.S_IMODE((tmp_path / section).stat().st_mode) & 0o777 == 0o750
