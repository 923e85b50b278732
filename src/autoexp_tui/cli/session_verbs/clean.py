"""autoexp-sessions clean and trust: removal of sessions, writing in odd directories.

Sessions are chosen by id, or all whose jobs have ended and that nobody runs. Without
--yes `clean` only tells how much would go.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.session_verbs.send_command import Request
from autoexp_tui.model.errors import NotConfirmed, UsageError
from autoexp_tui.text.sanitize import clean as cleaned

if TYPE_CHECKING:
    from autoexp_tui.cli.options import Options
    from autoexp_tui.storage.session_dir import SessionDir
    from autoexp_tui.storage.session_removal import Size

_UNITS = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_AGE = re.compile(r"(\d+(?:\.\d+)?)([mhdw])")


def clean(request: Request) -> int:
    """Remove sessions' own files; what their jobs wrote stays.

    Raises:
        AutoexpError: one that was named cannot go; then none goes.
    """
    from autoexp_tui.model.wording import plural
    from autoexp_tui.storage.session_removal import require_removable, size_of

    options = request.options
    chosen = _choose(request)
    for session in chosen:
        require_removable(session)
    sizes = [(session, size_of(session.path)) for session in chosen]
    if not options.yes or not chosen:
        _tell(sizes, options, done=False)
    elif chosen:
        _remove(chosen, options)
    if chosen and not options.yes:
        raise NotConfirmed(
            f"nothing was removed: this would remove {plural(len(chosen), 'session')}",
            hint="Add --yes to do it. Outputs and logs of the jobs stay.",
        )
    return ExitCode.OK


def _remove(chosen: Sequence[SessionDir], options: Options) -> None:
    from autoexp_tui.storage.session_removal import remove, sweep

    gone: list[tuple[SessionDir, Size]] = []
    try:
        gone.extend((session, remove(session)) for session in chosen)
        for state_dir in dict.fromkeys(session.state_dir for session in chosen):
            sweep(state_dir)
    finally:
        _tell(gone, options, done=True)


def _tell(
    sizes: Sequence[tuple[SessionDir, Size]], options: Options, *, done: bool
) -> None:
    from autoexp_tui.model.wording import plural, size

    if options.json:
        rows = [
            {
                "session": session.id,
                "directory": str(session.path),
                "files": found.files,
                "bytes": found.bytes,
            }
            for session, found in sizes
        ]
        print(json.dumps({"removed": done, "sessions": rows}))
        return
    for session, found in sizes:
        word = "removed" if done else "would remove"
        much = f"{size(found.bytes)} in {plural(found.files, 'file')}"
        print(f"{word} {cleaned(str(session.path))}  {much}")
    if not sizes and not done:
        print("no session to remove")


def _choose(request: Request) -> list[SessionDir]:
    from autoexp_tui.cli.open import session_called

    words, args, options = request.words, request.args, request.options
    by_state = bool(args.ended or args.older_than)
    if words and by_state:
        raise UsageError(
            "clean: either ids, or --ended and --older-than",
            hint=f"Leave out {words[0]}, or the options.",
        )
    if words:
        found = [session_called(word, options) for word in words]
        return list({session.path: session for session in found}.values())
    if not by_state:
        raise UsageError(
            "clean: which sessions?",
            hint="Name them, or --ended, or --older-than 30d.",
        )
    before = time.time() - age_seconds(args.older_than) if args.older_than else None
    return list(_ended_before(before, options))


def _ended_before(before: float | None, options: Options) -> Iterator[SessionDir]:
    """Sessions of which all jobs ended and that nobody runs, here or elsewhere."""
    from autoexp_tui.cli.open import places_of
    from autoexp_tui.storage.process_identity import Alive
    from autoexp_tui.storage.session_dir import SessionDir
    from autoexp_tui.storage.session_list import list_sessions

    for row in list_sessions(places_of(options)[0]):
        old = before is None or row.last_event_at < before
        if not row.open and row.owner is Alive.NO and not row.problem and old:
            yield SessionDir(row.directory)


def age_seconds(text: str) -> float:
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
    from autoexp_tui.storage import trust as trusted
    from autoexp_tui.storage.atomic import explaining, make_directory, write_atomic

    if not request.words:
        raise UsageError("trust: which directory?", hint="autoexp-sessions trust DIR")
    try:
        entry = trusted.identify(request.words[0])
    except OSError as error:
        raise UsageError(f"trust: {error.strerror}", request.words[0]) from error
    place = trusted.accepted_file()
    with explaining(place, "read what you trust"):
        known = trusted.accepted()
    make_directory(place.parent)
    others = tuple(one for one in known if one.path != entry.path)
    write_atomic(place, trusted.encode_accepted((*others, entry)))
    if request.options.json:
        print(json.dumps({"path": entry.path, "owner": entry.owner}))
    else:
        owner = cleaned(trusted.user_name(entry.owner))
        print(f"{cleaned(entry.path)} of {owner} is written to from now on")
    return ExitCode.OK
