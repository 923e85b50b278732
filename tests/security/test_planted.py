"""What another user of the machine may plant, and that it is refused in words, soon.

Root is the visitor here, and a made-up user has made what lies there: whose a thing is
is what counts. Nothing that was planted may run, and nothing may wait for it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from autoexp_tui.cli import background, monitor, run, run_sweep_entry, submit
from autoexp_tui.cli.assemble import log_fault, resume_session, start_session
from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.open import SessionOpener
from autoexp_tui.cli.options import Options
from autoexp_tui.conditions.kinds import FileExists
from autoexp_tui.engine.loop import Engine
from autoexp_tui.events import events
from autoexp_tui.executors.local.start import (
    find_wrapper_problem,
    get_wrapper,
    hash_wrapper,
    install_wrapper,
)
from autoexp_tui.model.commands import Order, StopEngine
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.specs import ExecutorSpec, Plan
from autoexp_tui.storage.done_file import get_done_path, read_done
from autoexp_tui.storage.journal import read_session
from autoexp_tui.storage.lease import take_lease
from autoexp_tui.storage.manifests import write_manifest
from autoexp_tui.storage.output_dir_lock import Owner, take_ownership
from autoexp_tui.storage.session_dir import SessionDir, require_ground
from autoexp_tui.storage.sessions import find_sessions, list_sessions
from autoexp_tui.testing.clock import ManualClock
from tests.cli.session_places import Place
from tests.security.two_users import ALICE, give

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")

SOON = 2.0
"""Seconds of this process's own time that a refusal may take."""
NO_WAIT = 10.0
"""Seconds in which it surely came, on a slow machine too: nothing was waited for."""


@contextmanager
def soon() -> Iterator[None]:
    """What is done within works little, and waits for nothing."""
    began, worked = time.monotonic(), time.process_time()
    yield
    assert time.process_time() - worked < SOON
    assert time.monotonic() - began < NO_WAIT


@dataclass(frozen=True)
class Lab(Place):
    """A shared place, and what the visitor runs there."""

    @property
    def mark(self) -> Path:
        """Is there once a planted command ran."""
        return self.root / "ran"

    def plan(self) -> Plan:
        plan = super().plan()
        jobs = [replace(job, command=("touch", str(self.mark))) for job in plan.jobs]
        return replace(plan, jobs=(jobs[0],), base_output_dir=str(self.root / "out"))

    def planted(self, session_id: str = "k7f2") -> SessionDir:
        """A session of another user's, which has a job to run; readable by all."""
        session = self.session(session_id, events.JobsReleased(jobs=("train",)))
        for one in session.path.rglob("*"):
            one.chmod(one.stat().st_mode | (0o055 if one.is_dir() else 0o044))
        give(session.path, ALICE, mode=0o755)
        return session

    def own(self, session_id: str = "k7f2") -> SessionDir:
        """A session of the visitor's own."""
        return self.session(session_id, events.JobsReleased(jobs=("train",)))

    def call(
        self, main: Callable[[Sequence[str]], int], *words: str
    ) -> tuple[int, str]:
        """Run a command: its exit code, and all that it said."""
        with soon():
            code = run_guarded(main, [*words, "--state-dir", str(self.state_dir)])
        said = self.capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out + said.err

    def problem(self, session_id: str = "k7f2") -> str:
        """What the list says of a session."""
        rows = {row.id: row.problem for row in list_sessions(self.state_dir)}
        return rows[session_id]


@pytest.fixture
def lab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Lab:
    return Lab(tmp_path, capsys)


@pytest.mark.parametrize("words", [
    ("restart", "k7f2"), ("kill", "k7f2", "train", "--yes"), ("skip", "k7f2", "train"),
    ("pause", "k7f2"), ("resume", "k7f2"), ("stop", "k7f2", "--jobs", "--yes"),
    ("clean", "k7f2", "--yes"), ("check", "k7f2", "--repair", "--yes"),
])  # fmt: skip
def test_no_verb_acts_on_the_session_of_somebody_else(
    lab: Lab, words: tuple[str, ...]
) -> None:
    session = lab.planted()
    before = sorted(path.name for path in session.path.rglob("*"))
    code, said, err = lab.say(*words)
    if words[0] != "check":  # of which nothing is to mend: it only reads
        assert code != 0
        assert f"belongs to user {ALICE}" in said + err
    assert sorted(path.name for path in session.path.rglob("*")) == before
    assert not lab.mark.exists()


@pytest.mark.parametrize(("main", "words"), [
    (monitor.main, ()), (background.main, ()), (monitor.main, ("--quiet",)),
    (run.main, ()), (run.main, ("--rest",)),
])  # fmt: skip
def test_no_command_runs_the_session_of_somebody_else(
    lab: Lab, main: Callable[[Sequence[str]], int], words: tuple[str, ...]
) -> None:
    lab.planted()
    code, said = lab.call(main, "--session", "k7f2", *words)
    assert code != 0
    assert f"belongs to user {ALICE}" in said
    assert "runs nothing" in said
    assert not lab.mark.exists()


def test_the_session_of_somebody_else_is_shown_with_its_owner_and_never_written(
    lab: Lab,
) -> None:
    session, target = lab.planted(), lab.root / "target"
    session.engine_log.symlink_to(target)
    log_fault(session.engine_log, "a traceback")
    lab.own("a2aa")
    handle = SessionOpener(Options()).view(str(session.path))
    try:
        assert handle.read_only
        assert handle.snapshot().engine.user == f"user {ALICE}"
        assert [job.name for job in handle.snapshot().jobs] == ["train"]
    finally:
        handle.close()
    code, out, _ = lab.say("list")
    assert code == 0
    assert f"user {ALICE}: none" in out
    rows = json.loads(lab.say("list", "--json")[1])
    users = {row["id"]: row["user"] for row in rows}
    assert users == {"k7f2": f"user {ALICE}", "a2aa": ""}
    code, out, _ = lab.say("show", "k7f2")
    assert code == 0
    assert f"belongs to   user {ALICE}; nothing of it runs as you" in out
    with pytest.raises(EnvironmentFailed, match="what it runs would run as you"):
        take_lease(session, ManualClock())
    assert list(session.viewers.iterdir()) == []
    assert not target.exists()
    assert not session.snapshot.exists()


def test_a_session_that_others_may_write_to_is_not_run(lab: Lab) -> None:
    session = lab.own()
    session.path.chmod(0o777)
    code, said = lab.call(monitor.main, "--session", "k7f2")
    assert code != 0
    assert "others may write to this session (mode 0777)" in said
    assert "chmod -R go-w" in said


def test_what_is_no_directory_of_a_session_is_a_line_of_the_list(lab: Lab) -> None:
    (lab.state_dir / "k7f2").symlink_to(lab.planted("b2bb").path)
    lab.own("a2aa")
    os.mkfifo(lab.state_dir / "c2cc")
    assert lab.problem() == "it is a symbolic link, not a session's directory"
    assert lab.problem("c2cc") == "it is a FIFO, not a session's directory"
    assert lab.problem("a2aa") == ""


@pytest.mark.usefixtures("config_home")
def test_trusting_a_directory_makes_no_session_in_it_runnable(lab: Lab) -> None:
    session = lab.planted()
    for place in (lab.state_dir, session.path):
        assert lab.say("trust", str(place))[0] == 0
    code, said = lab.call(monitor.main, "--session", "k7f2")
    assert code != 0
    assert "belongs to" in said


# ---------------------------------------------------------------------- manifests
def put_fifo(path: Path) -> None:
    os.mkfifo(path)


def put_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def put_sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 42)


def put_of_alice(path: Path) -> None:
    path.write_text("{}")
    os.chown(path, ALICE, ALICE)


PUT = [put_fifo, put_zeros, put_sparse, put_of_alice]


def plant_manifest(lab: Lab, how: str | Callable[[Path], None]) -> Path:
    path, odd = write_manifest(lab.state_dir, lab.plan()), lab.root / "plan.json"
    if callable(how):
        how(odd)
        return odd
    if how == "open to all":
        path.chmod(0o666)
        return path
    give(path, ALICE, mode=0o644)
    if how == "a link":
        odd.symlink_to(path)
    return odd if how == "a link" else path


@pytest.mark.parametrize(("main", "words"), [
    (run.main, ()), (submit.main, ()), (monitor.main, ()),
    (run_sweep_entry.main, ("--index", "0")),
])  # fmt: skip
@pytest.mark.parametrize("how", ["another's", "open to all", "a link", put_fifo])
def test_a_manifest_that_others_may_have_written_is_refused_with_the_way(
    lab: Lab,
    main: Callable[[Sequence[str]], int],
    words: Sequence[str],
    how: str | Callable[[Path], None],
) -> None:
    code, said = lab.call(main, "--manifest", str(plant_manifest(lab, how)), *words)
    assert code == 2
    assert "this manifest is refused: " in said
    assert "copy it to a file that you alone may write" in said
    assert not lab.mark.exists()


def test_who_comes_second_to_a_state_directory_has_manifests_of_their_own(
    lab: Lab,
) -> None:
    (lab.state_dir / "manifests").mkdir(parents=True)
    give(lab.state_dir / "manifests", ALICE, mode=0o700)
    path = write_manifest(lab.state_dir, lab.plan())
    assert path.parent == lab.state_dir / "manifests.0"
    assert list_sessions(lab.state_dir) == ()


# ---------------------------------------------------------- in place of something
@pytest.mark.parametrize("put", PUT)
@pytest.mark.parametrize("part", ["journal.1.jsonl", "plan.json", "lease/9.json"])
def test_what_lies_in_place_of_a_part_is_a_line_of_the_list(
    lab: Lab, part: str, put: Callable[[Path], None]
) -> None:
    session = lab.own()
    lab.own("a2aa")
    path = session.path / part
    path.unlink(missing_ok=True)
    put(path)
    with soon():
        assert lab.problem() != ""
        assert lab.problem("a2aa") == ""
        code, said = lab.call(monitor.main, "--session", "k7f2")
    assert code != 0
    assert str(path.name) in said


@pytest.mark.parametrize("put", PUT)
@pytest.mark.parametrize("part", ["snapshot.json", "live.json"])
def test_what_lies_in_place_of_something_disposable_is_done_without(
    lab: Lab, part: str, put: Callable[[Path], None]
) -> None:
    session = lab.own()
    put(session.path / part)
    assert lab.problem() == ""
    assert lab.say("show", "k7f2")[0] == 0


@pytest.mark.parametrize("put", PUT)
def test_word_of_an_owner_or_of_what_is_done_counts_only_from_the_user(
    lab: Lab, put: Callable[[Path], None]
) -> None:
    output = lab.root / "out" / "train"
    (output / ".autoexp").mkdir(parents=True)
    put(get_done_path(output))
    assert read_done(output) is None
    put(output / ".autoexp" / "owner.json")
    mine = Owner(session="k7f2", state_dir=str(lab.state_dir), job="train")
    with pytest.raises(EnvironmentFailed, match=r"owner\.json"):
        take_ownership(output, mine)


# ------------------------------------------------------------------ where we write
@pytest.fixture
def config_home(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(lab.root / "config"))
    return lab.root / "config" / "autoexp-tui"


def require(lab: Lab) -> None:
    plan = lab.plan()
    require_ground(plan.jobs[0], plan.base_output_dir)


@pytest.mark.usefixtures("config_home")
@pytest.mark.parametrize(("where", "owner", "mode"), [
    ("out/train", ALICE, 0o777), ("out/train", ALICE, None), ("out/train", 0, 0o777),
    ("out/train/.autoexp", ALICE, 0o755), ("out", 0, 0o777),
    ("logs/train", ALICE, 0o777),
])  # fmt: skip
def test_where_others_may_meddle_nothing_is_written(
    lab: Lab, where: str, owner: int, mode: int | None
) -> None:
    path, ssh = lab.root / where, lab.root / ".ssh"
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode is None:  # a link of hers
        ssh.mkdir(mode=0o700)
        path.symlink_to(ssh)
        os.chown(path, owner, owner, follow_symlinks=False)
    else:
        path.mkdir()
        give(path, owner, mode=mode)
    with pytest.raises(EnvironmentFailed) as refused:
        require(lab)
    assert refused.value.where == str(path)
    assert "autoexp-sessions trust" in refused.value.hint


def test_a_directory_that_the_user_trusts_is_written_to_until_it_is_another(
    lab: Lab, config_home: Path
) -> None:
    place = lab.root / "out" / "train"
    place.mkdir(parents=True)
    give(place, ALICE, mode=0o755)
    assert lab.say("trust", str(place))[0] == 0
    record = config_home / "trusted.json"
    assert record.stat().st_mode & 0o777 == 0o600
    require(lab)
    record.chmod(0o666)  # counts for nothing
    with pytest.raises(EnvironmentFailed, match=r"trusted\.json"):
        require(lab)
    record.chmod(0o600)
    os.chown(place, ALICE + 7, ALICE)
    with pytest.raises(EnvironmentFailed, match=f"user {ALICE + 7}"):
        require(lab)
    place.rename(place.with_name("before"))
    place.mkdir()  # made anew, in its place
    give(place, ALICE, mode=0o755)
    with pytest.raises(EnvironmentFailed, match=f"user {ALICE}"):
        require(lab)


# ------------------------------------------------------------------- the wrapper
def test_a_wrapper_that_was_changed_is_replaced_before_it_is_used(lab: Lab) -> None:
    session = lab.own()
    place = install_wrapper(session.path)
    recorded = hash_wrapper(place)
    place.write_text("print('planted')")
    assert "changed it" in find_wrapper_problem(session.path, recorded)
    install_wrapper(session.path, recorded)
    assert find_wrapper_problem(session.path, recorded) == ""
    assert hash_wrapper(place) == recorded
    place.write_text("older")  # that of an older version's session is kept
    assert find_wrapper_problem(session.path, "") == ""
    assert install_wrapper(session.path, "").read_text() == "older"
    give(place, ALICE)
    assert "belongs to" in find_wrapper_problem(session.path, "")
    assert install_wrapper(session.path, "").stat().st_uid == 0
    assert place.stat().st_uid == 0


def test_a_replaced_wrapper_is_told_with_the_start(lab: Lab) -> None:
    plan = replace(lab.plan(), executor=ExecutorSpec(settings={"slots": 1}))
    held = replace(
        plan.jobs[0],
        start_conditions=(FileExists(path=str(lab.root / "never"), writer=""),),
    )
    plan = replace(plan, jobs=(held,))
    options = Options(state_dir=str(lab.state_dir))
    engine = start_session(plan, lambda _: None, options)
    (session,) = find_sessions(lab.state_dir)
    stop(engine)
    get_wrapper(session.path).write_text("print('planted')")
    again = resume_session(session, lambda _: None, options)
    stop(again)
    texts = [
        record.event.text
        for record in read_session(session)
        if isinstance(record.event, events.MessageLogged)
    ]
    assert any("was replaced by the installed one" in text for text in texts)


def stop(engine: Engine) -> None:
    engine.order(Order(command_id=f"stop-{id(engine)}", command=StopEngine()))
    engine.run()
