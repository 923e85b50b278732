"""autoexp-sessions over sessions on disk, and over one that a real engine runs."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.session_verbs.show import parse_since
from autoexp_tui.cli.sessions import main
from autoexp_tui.engine.live import ViewerHandle
from autoexp_tui.events import events
from autoexp_tui.model.errors import UsageError
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage import sessions
from autoexp_tui.storage.lease import LeaseWatch, take_lease
from autoexp_tui.storage.live_sink import FileSessionWatcher
from autoexp_tui.storage.processes import Identity, read_start
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.user_files import note_place
from autoexp_tui.testing.clock import ManualClock
from tests.cli.session_places import Place, all_ended, held_by, held_elsewhere, ordered
from tests.e2e.campaign import Campaign, wait_until
from tests.storage.week_session import write_week
from tests.storage.whole_session import WholeSession, whole

RELEASED = events.JobsReleased(jobs=("train", "wait"))
SOUND = "nothing is damaged"


def test_sessions_of_other_known_places_are_listed_and_found(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = place.told("list")
    assert "No sessions in" in out
    assert "autoexp-tui --config-ref exp" in out
    monkeypatch.setenv("XDG_STATE_HOME", str(place.root / "xdg"))
    monkeypatch.chdir(place.root)
    here, there = place.root / "outputs/.autoexp", place.root / "there"
    WholeSession(here / "a2aa", 1.0)
    WholeSession(there / "b2bb", 2.0)
    note_place(there)
    assert run_guarded(main, ["list"]) == 0
    lines = place.capsys.readouterr().out.splitlines()
    places = [line for line in lines if line.endswith(":")]
    assert places == [f"{there}:", f"{here}:"]
    assert run_guarded(main, ["check", "b2bb"]) == 0
    assert run_guarded(main, ["check", "b2bb", "--state-dir", str(here)]) == 2


def test_a_running_session_is_shown_steered_and_stopped_with_its_jobs(
    place: Place,
) -> None:
    campaign = Campaign(place.root)
    campaign.write(families=2, seconds=60.0)
    run = campaign.start("--manifest", str(campaign.manifest))
    try:
        wait_until(lambda: len(campaign.living()) > 0)
        session = campaign.session()
        assert place.json("list")[0]["owner"] == "yes"
        assert "running" in place.told("show", session)
        assert SOUND in place.told("check", session)
        assert "--yes" in place.told("stop", session, "--jobs", code=3)
        place.told("kill", session, "stable1", "--yes")
        wait_until(lambda: "cancelled" in place.told("show", session))
        wait_until(lambda: "skipped" in place.told("show", session))
        place.told("retry", session, "stable1")
        wait_until(lambda: campaign.begun()["stable1 2"] == 1)
        place.told("stop", session, "--jobs", "--yes")
        wait_until(lambda: not campaign.living())
        assert SOUND in place.told("check", session)
    finally:
        run.kill()
        run.communicate()
        for pid in campaign.living():
            os.kill(pid, signal.SIGKILL)


def test_damage_is_told_with_its_place_and_mended_only_with_a_yes(place: Place) -> None:
    made = whole(place.state_dir / "k7f2")
    path = made.session.get_part(2)
    path.write_bytes(path.read_bytes().replace(b"loss", b"lOsS"))
    out = place.told("check", "k7f2", code=1)
    assert "journal.2.jsonl, line 4" in out
    assert "would: go on after record" in out
    assert "autoexp-sessions check k7f2 --repair --yes" in out
    assert "1 error, 0 warnings" in out
    told = place.json("check", "k7f2")
    assert (told["sound"], told["flaws"][0]["severity"]) == (False, "error")
    assert "add --yes" in place.told("check", "k7f2", "--repair", code=1)
    assert made.session.list_parts() == [(1, 0), (2, 0)]
    lease = take_lease(made.session, SystemClock())
    beside = place.told("check", "k7f2", "--repair", "--yes", code=4)
    assert "autoexp-sessions stop k7f2" in beside
    lease.release()
    out = place.say("check", "k7f2", "--repair", "--yes")[1]
    assert "done     journal.4.jsonl goes on there" in out
    assert SOUND in place.told("check", "k7f2")


def as_link(place: Place) -> None:
    session = place.session("k7f2", *all_ended())
    os.rename(session.path, place.root / "elsewhere")
    session.path.symlink_to(place.root / "elsewhere")


def written_into(place: Place, *, trial: bool = False) -> None:
    plan = place.plan()
    out = str(place.state_dir / "k7f2" / "out")
    first = replace(plan.jobs[0], output_dir=out, trial=trial)
    plan = replace(plan, jobs=(first, *plan.jobs[1:]))
    place.session("k7f2", *all_ended(), plan=plan)


def damaged(place: Place) -> None:
    session = place.session("k7f2", *all_ended())
    session.get_part(1).write_text("{}\n{}\n{}\n")
    session.get_attempt("train", 1).mkdir(parents=True)
    (session.get_attempt("train", 1) / "begin.0.json").write_text("{}")


@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (lambda p: p.session("k7f2", released=False), 4, "k7f2 is run by"),
        (lambda p: held_elsewhere(p.session("k7f2")), 4, "may be run by host cn17"),
        (lambda p: p.session("k7f2", RELEASED, ordered()), 2, "may still run: train"),
        (as_link, 2, "is a link to"),
        (written_into, 2, "writes into the session's own directory"),
        (damaged, 2, "train may still run"),
    ],
)
def test_what_may_not_go_stays_with_all_that_was_named(
    place: Place, make: Callable[[Place], object], code: int, said: str
) -> None:
    free = place.session("a2aa", *all_ended())
    make(place)
    assert said in place.told("clean", "a2aa", "k7f2", "--yes", code=code)
    assert free.has_journal()
    assert (place.state_dir / "k7f2" / "journal.1.jsonl").exists()
    assert "which sessions?" in place.told("clean", "a2aa", "--ended", "--yes", code=2)


def test_what_ended_or_is_old_or_named_goes_and_the_rest_stays(place: Place) -> None:
    ended = place.session("a2aa", *all_ended())
    waits = place.session("b2bb", RELEASED)
    runs = place.session("c2cc", *all_ended(), released=False)
    (line,) = place.told("clean", "--ended", "--yes").splitlines()
    assert line.split()[1] == str(ended.path)
    assert (waits.has_journal(), runs.has_journal()) == (True, True)
    old, new = (
        place.session(name, *all_ended(), t=time.time() - days * 86400)
        for name, days in (("d2dd", 40), ("e2ee", 1))
    )
    place.told("clean", "--older-than", "30d", "--yes")
    assert (old.has_journal(), new.has_journal()) == (False, True)
    other = place.session("f2ff", *all_ended())
    told = place.json("clean", "e2ee", "f2ff", "--yes")
    assert told["removed"] is True
    paths = [str(session.path) for session in (new, other)]
    assert [row["directory"] for row in told["sessions"]] == paths
    assert told["sessions"][0]["bytes"] > 0
    assert not any(session.path.exists() for session in (new, other))


def test_what_policies_put_into_a_session_goes_with_it_by_a_linked_path_too(
    place: Place,
) -> None:
    written_into(place, trial=True)
    link = place.root / "linked"
    link.symlink_to(place.state_dir)
    assert "removed" in place.told("clean", "k7f2", "--yes", "--state-dir", str(link))
    assert not (place.state_dir / "k7f2").exists()


def test_clean_tells_what_would_go_and_removes_it_with_a_yes_but_follows_no_link(
    place: Place,
) -> None:
    assert place.told("clean", "--ended", "--yes") == "no session to remove\n"
    outside = place.root / "checkpoints"
    outside.mkdir()
    (outside / "step.pt").write_text("weights")
    damaged(place)
    session = SessionDir(place.state_dir / "k7f2")
    exit_record = session.get_attempt("train", 1) / "exit.0.json"
    exit_record.write_text("{}")  # damaged, but its run is over
    (session.path / "link").symlink_to(outside)
    told = place.told("clean", "k7f2", code=3)
    assert f"would remove {session.path}" in told
    assert f"in {sessions.measure_size(session.path).files} files" in told
    assert "nothing was removed" in told
    assert session.has_journal()
    place.told("clean", "k7f2", "--yes")
    assert not session.path.exists()
    assert (outside / "step.pt").read_text() == "weights"


def test_what_a_killed_removal_left_is_not_listed_and_goes_with_the_next(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    place.session("k7f2", *all_ended())
    with monkeypatch.context() as patch:
        patch.setattr(sessions, "remove_below", killed)
        with pytest.raises(KeyboardInterrupt):
            sessions.remove(place.session("b2bb", *all_ended()))
    assert "b2bb" not in place.told("list")
    place.told("clean", "k7f2", "--yes")
    assert os.listdir(place.state_dir) == []


def test_since_is_a_span_ago_a_time_or_when_you_left(place: Place) -> None:
    session, _ = write_week(place.state_dir, jobs=31, note_seconds=4 * 3600, slots=4)
    now = time.time()
    ages = {"2h": 7200, "30d": 2592000, "2w": 1209600}
    for text, age in ages.items():
        assert parse_since(text, session) == pytest.approx(now - age, abs=5)
    assert parse_since("03-12", session) < now - 5
    for text, problem in (("left", "have not left"), ("yesterday", "no time")):
        with pytest.raises(UsageError, match=problem):
            parse_since(text, session)
    session.record_visit()
    left = session.read_last_visit()
    assert left is not None
    assert abs(left - time.time()) < 60
    assert session.visit.name.endswith(str(os.getuid()))
    assert parse_since("left", session) == left
    nowhere = SessionDir(session.path / "nowhere")
    nowhere.record_visit()  # what cannot be kept is no fault
    assert nowhere.read_last_visit() is None
    printed = place.told("show", session.id, "--since", "2026-01-01 00:00")
    assert printed.startswith("Since 2026-01-01 00:00: ")
    assert "done" in printed
    found = place.json("show", session.id, "--since", "1m")
    assert found["new"] == ["Nothing new since then."]


@pytest.fixture
def engine() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_an_engine_that_is_stopped_is_told_of_as_soon_as_it_happens(
    place: Place, engine: subprocess.Popen[bytes]
) -> None:
    session, clock = place.session("k7f2"), ManualClock()
    held_by(session, pid=engine.pid, started=read_start(engine.pid))
    handle = ViewerHandle(FileSessionWatcher(session, clock), clock)
    told: queue.Queue[int] = queue.Queue()
    handle.subscribe(lambda snapshot: told.put(snapshot.engine.halted_pid))
    assert sessions.describe(session).halted_pid == 0
    engine.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, engine.pid, os.WSTOPPED | os.WNOWAIT)
    try:
        assert told.get(timeout=20) == engine.pid
    finally:
        handle.close()
    elsewhere = replace(Identity.get_own(), host="another", machine="m")
    holder = LeaseWatch(session).find_holder()
    assert holder is not None
    assert holder.identity is not None
    assert not holder.identity.is_halted(elsewhere)
    wakes = f"its engine is stopped: `fg` in its terminal, or `kill -CONT {engine.pid}`"
    assert wakes in place.told("list")
    assert place.json("list")[0]["halted_pid"] == engine.pid
