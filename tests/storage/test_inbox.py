"""Commands left by other processes: each once, in order, and rubbish set aside; and
whose process sends one: a job's, by each of its marks, or a person's."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.model.commands import Kill, Order, Pause, Sender
from autoexp_tui.storage import inbox as inbox_module
from autoexp_tui.storage import trust
from autoexp_tui.storage.inbox import (
    FileInbox,
    check_sender,
    describe_sender,
    job_of,
    leave,
)
from autoexp_tui.storage.json_codec import encode
from autoexp_tui.storage.processes import COOKIE, read_start
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.user_files import note_place

from .disk_session import failing


def order(command_id: str) -> Order:
    return Order(command_id=command_id, command=Kill(jobs=("a",), reason="why not"))


def take(inbox: FileInbox | SessionDir) -> list[str]:
    """The ids of what an inbox gives out, or that of a new engine."""
    new = FileInbox(inbox) if isinstance(inbox, SessionDir) else inbox
    return [order.command_id for order in new.take()]


def reasons(session: SessionDir) -> str:
    files = sorted(session.inbox_rejected.glob("*.reason.txt"))
    return "".join(path.read_text() for path in files)


def test_commands_arrive_oldest_first_and_once_until_they_are_done(
    session: SessionDir,
) -> None:
    for number in (12, 3, 1_700_000_000):
        leave(session, order(f"c{number}"), float(number))
    leave(session, order("c3"), 4.0)  # left twice, it is forgotten together
    inbox = FileInbox(session)
    taken = [order("c3"), order("c3"), order("c12"), order("c1700000000")]
    assert list(inbox.take()) == taken
    leave(session, order("c2"), 13.0)
    assert take(inbox) == ["c2"]
    inbox.done(["c3", "c1700000000", "c9"])
    assert take(session) == ["c12", "c2"]
    assert list(session.inbox_rejected.iterdir()) == []
    # no command id leads out of the inbox
    assert leave(session, order("../../x"), 1.0).parent == session.inbox
    assert take(session)[0] == "../../x"


# ------------------------------------------------------------------------- rubbish
GOOD = encode(Order(command_id="c", command=Pause()))


def with_id(value: bytes) -> bytes:
    return GOOD.replace(b'"command_id":"c"', b'"command_id":' + value)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.json", b"\xff\x00", "no command"),
        ("a.json", b"null", "no command"),
        ("a.json", b'{"command_id":"c"}', "command: Field required"),
        ("a.json", GOOD[:-1] + b',"more":1}', "more"),
        ("a.json", GOOD.replace(b"pause", b"explode"), "command"),
        ("a.json", b" " * (trust.RECORD_BYTES + 1), "bytes, more than"),
        ("a.txt", GOOD, ".json"),
        ("deep.json", b'{"command":' * 50_000, "no command"),
        ("id.json", with_id(b'""'), "none"),
        ("long.json", with_id(b'"%s"' % (b"c" * 201)), "none"),
        ("lines.json", with_id(b'"a\\nb"'), "none"),
        ("\x1b[31mred\n.json", b"?", "no command"),
        ("\u00e9" * 120 + ".json", b"?", "no command"),
    ],
)
def test_rubbish_is_set_aside_with_its_reason_and_told_in_plain_characters(
    session: SessionDir, name: str, data: bytes, said: str
) -> None:
    (session.inbox / name).write_bytes(data)
    told: list[str] = []
    assert take(FileInbox(session, lambda *words: told.extend(words))) == []
    assert (session.inbox_rejected / name).read_bytes() == data
    assert said in reasons(session)
    assert said in told[1]
    assert "\x1b" not in told[0] + told[1]


def test_rubbish_that_cannot_be_moved_is_looked_at_once(
    session: SessionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    (session.inbox / "x.json").write_bytes(b"?")
    inbox = FileInbox(session, lambda name, _reason: told.append(name))
    monkeypatch.setattr(os, "replace", failing(errno.EROFS))
    inbox.take()
    inbox.take()
    assert told == ["x.json"]


def test_heaps_of_rubbish_hold_up_no_command(
    session: SessionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox_module, "AT_A_LOOK", 5)
    for number in range(12):
        (session.inbox / f"{number:017}-x.json").write_bytes(b"?")
    leave(session, order("c1"), 1e6)
    inbox = FileInbox(session)
    assert take(inbox) == ["c1"]
    inbox.done(["c1"])
    assert [take(inbox), take(inbox)] == [[], []]
    assert len(list(session.inbox_rejected.glob("*.reason.txt"))) == 12


def test_files_that_cannot_be_read_just_now_hold_up_no_command(
    session: SessionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox_module, "AT_A_LOOK", 3)
    for number in range(5):
        leave(session, order(f"c{number}"), float(number))
    opened = os.open

    def broken_but_for_c4(path: str, flags: int, *args: int) -> int:
        return (opened if "-c4" in str(path) else failing(errno.EIO))(
            path, flags, *args
        )

    inbox = FileInbox(session)
    with monkeypatch.context() as broken:
        broken.setattr(os, "open", broken_but_for_c4)
        assert take(inbox) == ["c4"]
    leave(session, order("c5"), 5.0)
    assert [take(inbox), take(inbox)] == [["c0", "c1", "c2"], ["c3", "c5"]]


def test_what_is_no_file_or_another_s_is_set_aside_amid_commands(
    session: SessionDir,
) -> None:
    os.mkfifo(session.inbox / "1-pipe.json")
    (session.inbox / "2-directory.json").mkdir()
    (session.path / "target").write_bytes(GOOD)
    (session.inbox / "3-link.json").symlink_to(session.path / "target")
    (session.inbox / ".half.json.tmp").write_bytes(b"{")
    if os.geteuid() == 0:  # only root may give files away
        os.chown(leave(session, order("c0"), 0.5), 12345, -1)
    mine = leave(session, order("c1"), 1.0)
    assert take(session) == ["c1"]
    assert reasons(session).count("it is a ") == 3
    assert os.geteuid() or "it belongs to user 12345" in reasons(session)
    left = {mine.name, ".half.json.tmp", "rejected"}
    assert set(os.listdir(session.inbox)) == left


# ------------------------------------------------------------------- whose process
TRAIN = "attempt 2 of train, session k7f2"
PLACE = "/state/k7f2/attempts/train/2"
WAITS = "import sys; print(flush=True); sys.stdin.read()"


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sender:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.5 5022 10.0.0.9 22")
    monkeypatch.setattr(os, "ttyname", lambda _descriptor: "/dev/pts/3")
    for name in (COOKIE, "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    return describe_sender(tmp_path)


@contextmanager
def process(*argv: str | Path, **env: str) -> Iterator[int]:
    """A process that lives for a while."""
    words = [sys.executable, *(argv or ("-c", WAITS))]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, env=env) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child.pid
        child.communicate()


def claim(state_dir: Path, field: str = "slurm_job") -> None:
    """An attempt whose Slurm job has the number 53."""
    attempt = state_dir / "k7f2" / "attempts" / "train" / "2"
    attempt.mkdir(parents=True)
    (attempt / "claim").write_text(json.dumps({field: "53"}))
    (attempt / "begin.0.json").write_text("{}")


@pytest.mark.usefixtures("person")
def test_the_wrapper_s_variable_or_a_supervisor_tells_the_attempt(
    tmp_path: Path,
) -> None:
    with process(**{COOKIE: PLACE}) as pid:
        assert job_of(pid, tmp_path) == TRAIN
    script = tmp_path / "wrapper.py"
    script.write_text(WAITS)
    with process("-I", "-S", script, "--detach", f"{PLACE}/task.ab.json") as pid:
        assert job_of(pid, tmp_path) == TRAIN  # its environment is empty


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize("field", ["slurm_job", "executor_id"])
def test_a_slurm_job_of_ours_is_known_by_its_claim(tmp_path: Path, field: str) -> None:
    for place in ("here", "elsewhere"):
        claim(tmp_path / place, field)
        note_place(tmp_path / place)
        with process(SLURM_JOB_ID="53") as pid:
            assert job_of(pid, tmp_path / "here") == TRAIN
        with process(SLURM_JOB_ID="54") as pid:  # an allocation of one's own
            assert job_of(pid, tmp_path / "here") == ""
        attempt = tmp_path / place / "k7f2/attempts/train/2"
        (attempt / "exit.0.json").write_text("{}")
        with process(SLURM_JOB_ID="53") as pid:
            assert job_of(pid, tmp_path / "here") == ""  # the number is free again


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize(
    "line",
    [
        "0::/system.slice/slurmstepd.scope/job_53/step_0/user/task_0\n",
        "7:cpuset:/slurm/uid_1000/job_53/step_batch\n3:cpu:/\n",
    ],
)
def test_the_cgroup_tells_the_slurm_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    claim(tmp_path)
    me = tmp_path / "proc" / str(os.getpid())
    me.mkdir(parents=True)
    (me / "cgroup").write_text(line)
    monkeypatch.setattr(inbox_module, "_PROC", tmp_path / "proc")
    assert job_of(os.getpid(), tmp_path) == TRAIN


def test_a_person_s_process_is_no_job_s_and_reads_as_who_and_from_where(
    tmp_path: Path, person: Sender
) -> None:
    assert (person.job, person.pid) == ("", os.getpid())
    assert (person.tty, person.ssh_client) == ("pts/3", "10.0.0.5")
    assert check_sender(person, tmp_path) == person
    told = str(replace(person, user="ada", host="login1"))
    assert told == f"ada on login1 (pts/3, from 10.0.0.5, pid {person.pid})"


def test_the_engine_looks_at_the_sender_itself(tmp_path: Path, person: Sender) -> None:
    with process(**{COOKIE: PLACE}) as pid:  # which says that it is no job
        says = replace(person, pid=pid, started=read_start(pid) or "")
        assert check_sender(says, tmp_path).job == TRAIN
    assert check_sender(None, tmp_path).doubt == "unnamed"
    gone = replace(person, started="1", leader_started="1")
    assert check_sender(gone, tmp_path).doubt == "ended"
    shell = {"leader": os.getpid(), "leader_started": person.started}
    of_shell = check_sender(replace(gone, **shell), tmp_path)  # type: ignore[arg-type]
    assert (of_shell.doubt, of_shell.job) == ("", "")
    there = replace(person, host="login2", boot="b")  # its own word stands
    assert check_sender(there, tmp_path) == replace(there, checked=False)
