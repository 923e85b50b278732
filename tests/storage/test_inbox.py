"""Commands left by other processes: each once, in order, and rubbish set aside."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from autoexp_tui.model.commands import Kill, Order, Pause
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.storage import inbox as inbox_module
from autoexp_tui.storage.inbox import FileInbox, leave
from autoexp_tui.storage.json_codec import encode
from autoexp_tui.storage.session_dir import SessionDir


@pytest.fixture
def session(tmp_path: Path) -> SessionDir:
    made = SessionDir(tmp_path / "k7f2")
    made.make()
    return made


def order(command_id: str) -> Order:
    return Order(command_id=command_id, command=Kill(jobs=("a",), reason="why not"))


def ids(orders: object) -> list[str]:
    assert isinstance(orders, list)
    return [order.command_id for order in orders]


def reasons(session: SessionDir) -> str:
    files = sorted(session.inbox_rejected.glob("*.reason.txt"))
    return "".join(path.read_text() for path in files)


def test_commands_arrive_as_they_were_left_oldest_first(session: SessionDir) -> None:
    for number in (12, 3, 1_700_000_000):
        leave(session, order(f"c{number}"), float(number))
    taken = list(FileInbox(session).take())
    assert taken == [order("c3"), order("c12"), order("c1700000000")]


def test_a_command_is_given_to_each_engine_once_until_it_is_done(
    session: SessionDir,
) -> None:
    inbox = FileInbox(session)
    leave(session, order("c1"), 1.0)
    inbox.take()
    leave(session, order("c2"), 2.0)
    assert ids(inbox.take()) == ["c2"]
    inbox.done(["c1", "c9"])
    assert ids(FileInbox(session).take()) == ["c2"]
    assert list(session.inbox_rejected.iterdir()) == []


def test_the_same_command_left_twice_is_forgotten_together(
    session: SessionDir,
) -> None:
    inbox = FileInbox(session)
    leave(session, order("c1"), 1.0)
    leave(session, order("c1"), 2.0)
    inbox.take()
    inbox.done(["c1"])
    assert ids(FileInbox(session).take()) == []


def test_no_command_id_leads_out_of_the_inbox(session: SessionDir) -> None:
    path = leave(session, order("../../x"), 1.0)
    assert path.parent == session.inbox
    assert ids(FileInbox(session).take()) == ["../../x"]


GOOD = encode(Order(command_id="c", command=Pause()))


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.json", b"", "no command"),
        ("a.json", b"{", "no command"),
        ("a.json", b"\xff\x00", "no command"),
        ("a.json", b"null", "no command"),
        ("a.json", b'{"command_id":"c"}', "command: Field required"),
        ("a.json", GOOD[:-1] + b',"more":1}', "more"),
        ("a.json", GOOD.replace(b"pause", b"explode"), "command"),
        ("a.json", b" " * (inbox_module.MAX_BYTES + 1), "bytes, more than"),
        ("a.txt", GOOD, ".json"),
        ("deep.json", b"[" * 100_000, "no command"),
        ("deep.json", b'{"command":' * 50_000, "no command"),
        ("binary.json", bytes(range(256)) * 100, "no command"),
        ("list.json", b"[1, 2, 3]", "no command"),
        ("type.json", GOOD.replace(b'"command_id":"c"', b'"command_id":7'), "command"),
        ("id.json", GOOD.replace(b'"command_id":"c"', b'"command_id":""'), "none"),
        (
            "long.json",
            GOOD.replace(b'"command_id":"c"', b'"command_id":"%s"' % (b"c" * 201)),
            "none",
        ),
        (
            "lines.json",
            GOOD.replace(b'"command_id":"c"', b'"command_id":"a\\nb"'),
            "none",
        ),
        ("two\nlines", b"?", ".json"),
        ("\x1b[31mred.json", b"?", "no command"),
        ("x" * 250 + ".json", b"?", "no command"),
        ("\u00e9" * 120 + ".json", b"?", "no command"),
    ],
)
def test_rubbish_is_set_aside_with_its_reason(
    session: SessionDir, name: str, data: bytes, said: str
) -> None:
    (session.inbox / name).write_bytes(data)
    assert ids(FileInbox(session).take()) == []
    assert (session.inbox_rejected / name).read_bytes() == data
    assert said in reasons(session)


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_what_is_no_regular_file_is_set_aside(session: SessionDir, kind: str) -> None:
    path = session.inbox / "a.json"
    if kind == "link":
        (session.path / "target").write_bytes(GOOD)
        path.symlink_to(session.path / "target")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert ids(FileInbox(session).take()) == []
    assert "it is" in reasons(session)
    assert not path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_command_of_another_user_is_set_aside(session: SessionDir) -> None:
    path = leave(session, order("c1"), 1.0)
    os.chown(path, 12345, -1)
    assert ids(FileInbox(session).take()) == []
    assert "it belongs to user 12345" in reasons(session)


def test_rubbish_that_cannot_be_moved_is_looked_at_once(
    session: SessionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    (session.inbox / "x.json").write_bytes(b"?")
    inbox = FileInbox(session, lambda name, _reason: told.append(name))

    def refuse(*_args: object) -> None:
        raise OSError(errno.EROFS, "read-only")

    monkeypatch.setattr(os, "replace", refuse)
    inbox.take()
    inbox.take()
    assert told == ["x.json"]


def test_a_command_on_a_disk_that_fails_just_now_is_taken_later(
    session: SessionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(session, order("c1"), 1.0)
    inbox = FileInbox(session)

    def failing(*_args: object) -> int:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "open", failing)
        assert ids(inbox.take()) == []
    assert ids(inbox.take()) == ["c1"]


def test_an_inbox_that_was_removed_is_empty(session: SessionDir) -> None:
    session.inbox_rejected.rmdir()
    session.inbox.rmdir()
    assert ids(FileInbox(session).take()) == []


def test_an_inbox_that_cannot_be_written_is_an_error_of_the_environment(
    session: SessionDir,
) -> None:
    session.inbox_rejected.rmdir()
    session.inbox.rmdir()
    session.inbox.touch()
    with pytest.raises(EnvironmentFailed):
        leave(session, order("c1"), 1.0)


def test_whoever_is_told_of_rubbish_is_told_in_plain_characters(
    session: SessionDir,
) -> None:
    told: list[str] = []
    (session.inbox / "a\x1b[31m\nb.json").write_bytes(b"?")
    FileInbox(session, lambda name, reason: told.append(name + reason)).take()
    assert "\x1b" not in told[0]


def test_heaps_of_rubbish_hold_up_no_command(session: SessionDir) -> None:
    for number in range(1200):
        (session.inbox / f"{number:04}.json").write_bytes(b"?")
    leave(session, order("c1"), 1.0)
    inbox = FileInbox(session)
    assert ids(inbox.take()) == ["c1"]
    inbox.done(["c1"])
    looks = 1
    while len(os.listdir(session.inbox)) > 1:
        assert ids(inbox.take()) == []
        looks += 1
    assert looks == -(-1201 // inbox_module.AT_A_LOOK)
    assert len(list(session.inbox_rejected.glob("*.reason.txt"))) == 1200


def test_rubbish_with_names_like_ours_holds_up_no_command(session: SessionDir) -> None:
    for number in range(2000):
        (session.inbox / f"{number:017}-x.json").write_bytes(b"?")
    leave(session, order("c1"), 1.0)
    assert ids(FileInbox(session).take()) == ["c1"]


def test_files_that_cannot_be_read_just_now_hold_up_no_command(
    session: SessionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox_module, "AT_A_LOOK", 3)
    for number in range(5):
        leave(session, order(f"c{number}"), float(number))
    opened = os.open

    def failing(path: str, flags: int, *args: int) -> int:
        if "-c4" not in str(path):
            raise OSError(errno.EIO, "input/output error")
        return opened(path, flags, *args)

    inbox = FileInbox(session)
    with monkeypatch.context() as broken:
        broken.setattr(os, "open", failing)
        assert ids(inbox.take()) == ["c4"]
    assert ids(inbox.take()) == ["c0", "c1", "c2"]
    assert ids(inbox.take()) == ["c3"]


def test_an_engine_s_command_amid_all_kinds_of_rubbish_is_done(
    session: SessionDir,
) -> None:
    os.mkfifo(session.inbox / "00000000000000001-pipe.json")
    (session.inbox / "00000000000000002-directory.json").mkdir()
    (session.inbox / "00000000000000003-link.json").symlink_to("/dev/zero")
    (session.inbox / "00000000000000004-deep.json").write_bytes(b"[" * 100_000)
    (session.inbox / ".00000000000000005-half.json.tmp").write_bytes(b"{")
    with open(os.fsencode(session.inbox) + b"/\xff\xfe.json", "wb") as file:
        file.write(b"?")
    leave(session, order("c1"), 1.0)
    assert ids(FileInbox(session).take()) == ["c1"]
    left = sorted(os.listdir(session.inbox))
    assert [name for name in left if "c1" not in name and name != "rejected"] == [
        ".00000000000000005-half.json.tmp"
    ]
