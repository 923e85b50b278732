"""A research for real, whose engines die by SIGKILL: nothing is lost, nothing is done
or paid twice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from autoexp_tui.model.resubmission import list_open_asks
from autoexp_tui.research.commands import TellAgent
from tests.e2e.campaign import wait_until
from tests.e2e.research_kills import Person, finish, list_problems
from tests.e2e.research_place import FINISH, Place

WORDS = ("++agents.a.env.SECONDS='1'", "research.heartbeat_seconds=1")


@pytest.mark.slow
def test_engines_that_die_amid_a_call_and_amid_a_question_lose_and_repeat_nothing(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path, WORDS)
    place.make()
    person, run = Person(place, random.Random(1)), place.start()
    wait_until(lambda: place.is_begun and place.read_calls(), "a call")
    run.kill()
    run.wait()
    person.order(TellAgent(text=FINISH))
    run = place.start()
    wait_until(lambda: list_open_asks(place.load().asks), "a question")
    run.kill()
    run.wait()
    [(name, ask)] = list_open_asks(place.load().asks).items()
    person.reply(name, ask, approved=True)
    finish(place)
    assert [*list_problems(place, person)] == []
    research = place.find()
    ended = research.runs["r1long"].ended
    assert ended is not None
    assert ended.outcome == "killed"
    assert research.total_calls >= 3
