"""autoexp-sessions clean and trust: removal of sessions, writing in odd directories.

Sessions are chosen by id, or all whose jobs have ended and that nobody runs. Without
--yes `clean` only tells how much would go.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.open import find_session, list_places
from autoexp_tui.cli.options import Options
from autoexp_tui.cli.session_verbs.request import Request
from autoexp_tui.model.errors import NotConfirmed, UsageError
from autoexp_tui.storage import trust as trusted
from autoexp_tui.storage.atomic import explaining, make_directory, write_atomic
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.session_list import list_sessions
from autoexp_tui.storage.session_removal import (
    Size,
    remove,
    require_removable,
    size_of,
    sweep,
)
from autoexp_tui.text import sanitize
from autoexp_tui.text.spelling import plural, size

_UNITS = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_AGE = re.compile(r"(\d+(?:\.\d+)?)([mhdw])")


def clean(request: Request) -> int:
    """Remove sessions' own files; what their jobs wrote stays.

    Raises:
        AutoexpError: one that was named cannot go; then none goes.
    """
    chosen = _choose_sessions(request)
    for session in chosen:
        require_removable(session)
    if chosen and request.options.yes:
        _remove(request, chosen)
        return ExitCode.OK
    sizes = [(session, size_of(session.path)) for session in chosen]
    _print_sizes(request, sizes, done=False)
    if chosen:
        raise NotConfirmed(
            f"nothing was removed: this would remove {plural(len(chosen), 'session')}",
            hint="Add --yes to do it. Outputs and logs of the jobs stay.",
        )
    return ExitCode.OK


def _remove(request: Request, chosen: Sequence[SessionDir]) -> None:
    gone: list[tuple[SessionDir, Size]] = []
    try:
        gone.extend((session, remove(session)) for session in chosen)
        for state_dir in dict.fromkeys(session.state_dir for session in chosen):
            sweep(state_dir)
    finally:
        _print_sizes(request, gone, done=True)


def _print_sizes(
    request: Request, sizes: Sequence[tuple[SessionDir, Size]], *, done: bool
) -> None:
    rows = [
        {
            "session": session.id,
            "directory": str(session.path),
            "files": found.files,
            "bytes": found.bytes,
        }
        for session, found in sizes
    ]
    word = "removed" if done else "would remove"
    lines = [
        f"{word} {sanitize.clean(str(session.path))}  "
        f"{size(found.bytes)} in {plural(found.files, 'file')}"
        for session, found in sizes
    ]
    if lines or request.options.json:
        request.print({"removed": done, "sessions": rows}, lines)
    elif not done:
        print("no session to remove")


def _choose_sessions(request: Request) -> list[SessionDir]:
    words, args, options = request.words, request.args, request.options
    by_state = bool(args.ended or args.older_than)
    if words and by_state:
        raise UsageError(
            "clean: either ids, or --ended and --older-than",
            hint=f"Leave out {words[0]}, or the options.",
        )
    if words:
        found = [find_session(options, word) for word in words]
        return list({session.path: session for session in found}.values())
    if not by_state:
        raise UsageError(
            "clean: which sessions?",
            hint="Name them, or --ended, or --older-than 30d.",
        )
    before = time.time() - parse_age(args.older_than) if args.older_than else None
    return list(_list_ended(before, options))


def _list_ended(before: float | None, options: Options) -> Iterator[SessionDir]:
    """Sessions of which all jobs ended and that nobody runs, here or elsewhere."""
    for row in list_sessions(list_places(options)[0]):
        old = before is None or row.last_event_at < before
        if not row.open and row.owner is Alive.NO and not row.problem and old:
            yield SessionDir(row.directory)


def parse_age(text: str) -> float:
    """Seconds of `30d`, `12h`, `90m`, `2w`.

    Raises:
        UsageError: it is no age.
    """
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"--older-than: {text!r} is no age", hint="30d, 12h, 90m or 2w"
        )
    return float(match[1]) * _UNITS[match[2]]


# ------------------------------------------------------------------------------- trust
def trust(request: Request) -> int:
    """Record that the user wants to write into a directory as it is now.

    Another owner, or another directory of that name, is asked about again. Sessions and
    manifests of other users stay refused, wherever they lie.

    Raises:
        UsageError: no directory was named, or it is none.
        EnvironmentFailed: the record cannot be read or written.
    """
    if not request.words:
        raise UsageError("trust: which directory?", hint="autoexp-sessions trust DIR")
    try:
        entry = trusted.build_accepted(request.words[0])
    except OSError as error:
        raise UsageError(f"trust: {error.strerror}", request.words[0]) from error
    place = trusted.get_accepted_file()
    with explaining(place, "read what you trust"):
        known = trusted.load_accepted()
    make_directory(place.parent)
    others = tuple(one for one in known if one.path != entry.path)
    write_atomic(place, trusted.encode_accepted((*others, entry)))
    path, owner = map(sanitize.clean, (entry.path, trusted.format_user(entry.owner)))
    text = f"{path} of {owner} is written to from now on"
    return request.print({"path": entry.path, "owner": entry.owner}, [text])
