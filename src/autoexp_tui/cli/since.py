"""When this user last left a session's cockpit, and what has happened since."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from autoexp_tui.model.errors import UsageError

if TYPE_CHECKING:
    from autoexp_tui.storage.session_dir import SessionDir

LEFT = "left"
"""For `--since`: the moment at which this user last left the cockpit."""


def name_visit_file(directory: Path) -> Path:
    """The file of a session's directory whose mtime says when this user left."""
    return directory / f"left.{os.getuid()}"


def read_last_visit(directory: Path) -> float | None:
    """UTC at which this user left the session's cockpit last; None: never."""
    try:
        return name_visit_file(directory).stat().st_mtime
    except OSError:
        return None


def record_visit(directory: Path) -> None:
    """This user sees the session now; where that cannot be kept, no more is lost
    than the digest of the next visit."""
    from autoexp_tui.storage.trust import session_user

    with suppress(OSError):
        if not session_user(directory):
            name_visit_file(directory).touch(0o600)


def parse_since(text: str, session: SessionDir, now: float) -> float:
    """The moment that `--since` names: `left`, `2h` ago, `14:02`, `03-12 14:02`.

    Raises:
        UsageError: it names none.
    """
    from autoexp_tui.text.time_parsing import NoMoment, parse_moment

    if text == LEFT:
        left = read_last_visit(session.path)
        if left is None:
            raise UsageError(
                "you have not left this session's cockpit yet",
                "--since",
                "Name a time instead: 2h, 14:02, 03-12 14:02.",
            )
        return left
    ago = f"-{text}" if text[:1].isdigit() and text[-1:] in "smhdn" else text
    try:
        return parse_moment(ago, now, 0.0, now)
    except NoMoment:
        raise UsageError(
            f"{text!r} is no time", "--since", "2h, 14:02, 03-12 14:02, or left"
        ) from None


def describe_since(session: SessionDir, text: str) -> list[str]:
    """What happened in a session since a moment, as lines of text.

    Raises:
        AutoexpError: no such moment, or the session cannot be read.
    """
    from autoexp_tui.cockpit.render.digest import write_digest
    from autoexp_tui.cockpit.spans import plain
    from autoexp_tui.cockpit.state.causes import PlanWords, group_causes
    from autoexp_tui.cockpit.state.session import build_session
    from autoexp_tui.engine.snapshot_publisher import SnapshotBuilder
    from autoexp_tui.model.snapshot import EngineView
    from autoexp_tui.storage.journal import load_state

    now = time.time()
    since = parse_since(text, session, now)
    loaded = load_state(session)
    publisher = SnapshotBuilder()
    publisher.note(loaded.events)
    shown = build_session(
        publisher.snapshot(loaded.state, EngineView(role="viewer"), {})
    )
    groups = group_causes(shown, PlanWords(shown.snapshot.plan, shown.changed))
    lines = write_digest(
        shown, groups, shown.present(since), shown.present(now), lead="Since"
    )
    return [plain(line).rstrip() for line in lines] or ["Nothing new since then."]
