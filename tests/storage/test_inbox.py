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


def test_the_same_command_left_twice_is_forgotten_together(session: SessionDir) -> None:
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


def with_id(value: bytes) -> bytes:
    return GOOD.replace(b'"command_id":"c"', b'"command_id":' + value)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.json", b"", "no command"),
        ("a.json", b"\xff\x00", "no command"),
        ("a.json", b"null", "no command"),
        ("a.json", b'{"command_id":"c"}', "command: Field required"),
        ("a.json", GOOD[:-1] + b',"more":1}', "more"),
        ("a.json", GOOD.replace(b"pause", b"explode"), "command"),
        ("a.json", b" " * (inbox_module.MAX_BYTES + 1), "bytes, more than"),
        ("a.txt", GOOD, ".json"),
        ("deep.json", b"[" * 100_000, "no command"),
        ("deep.json", b'{"command":' * 50_000, "no command"),
        ("type.json", with_id(b"7"), "command"),
        ("id.json", with_id(b'""'), "none"),
        ("long.json", with_id(b'"%s"' % (b"c" * 201)), "none"),
        ("lines.json", with_id(b'"a\\nb"'), "none"),
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


def test_an_inbox_that_was_removed_is_empty_and_takes_nothing(
    session: SessionDir,
) -> None:
    session.inbox_rejected.rmdir()
    session.inbox.rmdir()
    assert ids(FileInbox(session).take()) == []
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


@pytest.mark.parametrize("name", ["{:04}.json", "{:017}-x.json"])
def test_heaps_of_rubbish_hold_up_no_command(session: SessionDir, name: str) -> None:
    for number in range(1200):
        (session.inbox / name.format(number)).write_bytes(b"?")
    leave(session, order("c1"), 1e6)
    inbox = FileInbox(session)
    assert ids(inbox.take()) == ["c1"]
    inbox.done(["c1"])
    looks = 1
    while len(os.listdir(session.inbox)) > 1:
        assert ids(inbox.take()) == []
        looks += 1
    assert looks == -(-1201 // inbox_module.AT_A_LOOK)
    assert len(list(session.inbox_rejected.glob("*.reason.txt"))) == 1200


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
    (session.path / "target").write_bytes(GOOD)
    (session.inbox / "00000000000000003-link.json").symlink_to(session.path / "target")
    (session.inbox / "00000000000000004-deep.json").write_bytes(b"[" * 100_000)
    (session.inbox / ".00000000000000005-half.json.tmp").write_bytes(b"{")
    with open(os.fsencode(session.inbox) + b"/\xff\xfe.json", "wb") as file:
        file.write(b"?")
    leave(session, order("c1"), 1.0)
    assert ids(FileInbox(session).take()) == ["c1"]
    assert reasons(session).count("it is a ") == 3
    left = sorted(os.listdir(session.inbox))
    assert [name for name in left if "c1" not in name and name != "rejected"] == [
        ".00000000000000005-half.json.tmp"
    ]
