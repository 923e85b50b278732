"""autoexp-sessions clean: what goes, what stays, and what may not go."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from autoexp_tui.cli.session_verbs.maintenance import parse_age
from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.events import events
from autoexp_tui.model.errors import UsageError
from autoexp_tui.storage import sessions
from autoexp_tui.storage.sessions import measure_size
from tests.cli.session_places import Place, all_ended, held_elsewhere


def test_without_a_yes_it_only_tells_what_would_go_and_how_much(place: Place) -> None:
    session = place.session("k7f2", *all_ended())
    code, out, err = place.say("clean", "k7f2")
    assert code == 3
    assert f"would remove {session.path}" in out
    assert f"in {measure_size(session.path).files} files" in out
    assert "nothing was removed" in err
    assert session.has_journal()


ORDERED = (
    events.JobsReleased(jobs=("train",)),
    events.EffectOrdered(
        effect_id="x", effect=SubmitTasks(token="t", tasks=(("train", 1),))
    ),
)


@pytest.mark.parametrize(
    ("make", "words", "code", "said"),
    [
        (
            lambda place: place.session("k7f2", *all_ended(), released=False),
            (),
            4,
            "session k7f2 is run by",
        ),
        (
            lambda place: held_elsewhere(place.session("k7f2", *all_ended())),
            (),
            4,
            "may be run by host cn17",
        ),
        (lambda place: place.session("k7f2", *ORDERED), (), 2, "may still run: train"),
        (
            lambda place: place.session("k7f2", *all_ended()),
            ("--ended",),
            2,
            "either ids",
        ),
    ],
)
def test_what_may_not_go_stays_with_all_that_was_named(
    place: Place,
    make: Callable[[Place], object],
    words: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    free = place.session("a2aa", *all_ended())
    make(place)
    found, _, err = place.say("clean", "a2aa", "k7f2", *words, "--yes")
    assert (found, said in err) == (code, True), err
    assert free.has_journal()
    assert (place.state_dir / "k7f2").exists()


def test_all_that_ended_goes_and_the_rest_stays(place: Place) -> None:
    ended = place.session("a2aa", *all_ended())
    waits = place.session("b2bb", events.JobsReleased(jobs=("wait",)))
    runs = place.session("c2cc", *all_ended(), released=False)
    code, out, _ = place.say("clean", "--ended", "--yes")
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()] == [str(ended.path)]
    assert waits.has_journal()
    assert runs.has_journal()


def test_only_old_ones_go_when_an_age_is_given(place: Place) -> None:
    old = place.session("a2aa", *all_ended(), t=time.time() - 40 * 86400)
    new = place.session("b2bb", *all_ended(), t=time.time() - 86400)
    code, *_ = place.say("clean", "--older-than", "30d", "--yes")
    assert code == 0
    assert (old.has_journal(), new.has_journal()) == (False, True)


def test_nothing_to_remove_is_no_failure(place: Place) -> None:
    code, out, _ = place.say("clean", "--ended", "--yes")
    assert (code, out) == (0, "no session to remove\n")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30d", 2592000), ("12h", 43200), ("2w", 1209600)]
    + [(text, None) for text in ("30", "d", "-1d", "1y")],
)
def test_an_age_has_a_unit_that_is_known(text: str, seconds: float | None) -> None:
    if seconds is None:
        with pytest.raises(UsageError, match="is no age"):
            parse_age(text)
    else:
        assert parse_age(text) == seconds


def test_several_go_at_once_and_programs_are_told_which(place: Place) -> None:
    sessions = [place.session(name, *all_ended()) for name in ("a2aa", "b2bb")]
    code, out, _ = place.say("clean", "a2aa", "b2bb", "--yes", "--json")
    told, paths = json.loads(out), [str(session.path) for session in sessions]
    assert (code, told["removed"]) == (0, True)
    assert [row["directory"] for row in told["sessions"]] == paths
    assert told["sessions"][0]["bytes"] > 0
    assert not any(session.path.exists() for session in sessions)


def test_links_are_removed_and_never_followed(place: Place) -> None:
    outside = place.root / "checkpoints"
    outside.mkdir()
    (outside / "step.pt").write_text("weights")
    session = place.session("k7f2", *all_ended())
    (session.path / "link").symlink_to(outside)
    assert place.say("clean", "k7f2", "--yes")[0] == 0
    assert (outside / "step.pt").read_text() == "weights"


def test_a_session_that_is_a_link_is_refused(place: Place) -> None:
    session = place.session("k7f2", *all_ended())
    moved = place.root / "elsewhere"
    os.rename(session.path, moved)
    session.path.symlink_to(moved)
    code, _, err = place.say("clean", "k7f2", "--yes")
    assert (code, "is a link to" in err) == (2, True)
    assert (moved / "journal.1.jsonl").exists()


def test_a_session_into_which_a_job_writes_is_refused(place: Place) -> None:
    plan = place.plan()
    inside = str(place.state_dir / "k7f2" / "out")
    first = replace(plan.jobs[0], output_dir=inside)
    plan = replace(plan, jobs=(first, *plan.jobs[1:]))
    session = place.session("k7f2", *all_ended(), plan=plan)
    code, _, err = place.say("clean", "k7f2", "--yes")
    assert (code, "writes into the session's own directory" in err) == (2, True)
    assert session.has_journal()


def test_a_damaged_session_goes_unless_a_run_is_open(place: Place) -> None:
    session = place.session("k7f2", *all_ended())
    session.get_part(1).write_text("{}\n{}\n{}\n")
    records = session.get_attempt("train", 1)
    records.mkdir(parents=True)
    (records / "begin.0.json").write_text("{}")
    code, _, err = place.say("clean", "k7f2", "--yes")
    assert (code, "train may still run" in err) == (2, True)
    (records / "exit.0.json").write_text("{}")
    assert place.say("clean", "k7f2", "--yes")[0] == 0
    assert not session.path.exists()


def test_what_a_killed_removal_left_is_not_listed_and_goes_with_the_next(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.session("k7f2", *all_ended())
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", _killed)
        with pytest.raises(KeyboardInterrupt):
            sessions.remove(place.session("b2bb", *all_ended()))
    assert "b2bb" not in place.say("list")[1]
    assert place.say("clean", "k7f2", "--yes")[0] == 0
    assert os.listdir(place.state_dir) == []


def _killed(_path: object) -> None:
    raise KeyboardInterrupt
