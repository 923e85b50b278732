"""The state as of some record, kept so that a start need not fold a long journal.

`state.<epoch>.json`, written by the engine of that lease alone and replaced as a whole:
a header line that says what it covers, the newest records as the journal has them, and
the state. It is disposable. It counts only when the same code wrote it, its bytes are
whole, and the journal still is what it was made from: the same parts up to the same
bytes, the last of them with the same digest. At any doubt the journal is folded from
its beginning; what damages a cache never damages a session.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import MutableMapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from autoexp_tui import effects, events, model
from autoexp_tui.events.events import Recorded
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.atomic import write_atomic
from autoexp_tui.storage.codec import encode_record, parse_record
from autoexp_tui.storage.core_json import Undecodable
from autoexp_tui.storage.journal_parts import Part, open_part
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.state_codec import decode_state, encode_state
from autoexp_tui.storage.trust import read_session_file

_FORMAT = 1
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """Which records a kept state adds up."""

    parts: tuple[tuple[str, int], ...]
    """Each part's name and how many bytes of it, oldest first."""
    sha256: str
    """Of those bytes of the last part."""
    start: int
    """Where the newest record begins in it."""
    seq: int
    """Of the newest record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A state that counts."""

    state: SessionState
    events: tuple[Recorded, ...]
    """The newest records that it adds up, oldest first."""
    cover: Cover


class Unfit(Exception):
    """A kept state that does not count; the text says why."""


# ------------------------------------------------------------------------ writing
def keep(
    path: Path, cover: Cover, state: SessionState, recent: Sequence[Recorded]
) -> None:
    """Replace what is kept at `path`.

    Raises:
        EnvironmentFailed: the disk refused; what was kept is as it was.
        ValueError: the state holds what JSON cannot.
    """
    body = b"".join(
        [*(encode_record(record) for record in recent), encode_state(state)]
    )
    header = {
        "format": _FORMAT,
        "code": folding_code(),
        "recent": len(recent),
        "body_sha256": hashlib.sha256(body).hexdigest(),
        "cover": asdict(cover),
    }
    data = json.dumps(header, separators=(",", ":")).encode() + b"\n" + body
    # Not durable: what a power cut leaves of it is noticed, and folded over.
    write_atomic(path, data, durable=False)


def forget_older(session: SessionDir, epoch: int) -> None:
    """Remove what engines before `epoch` kept: one that counts is enough."""
    for older in session.state_caches():
        if older < epoch:
            with suppress(OSError):
                session.state_cache(older).unlink(missing_ok=True)


# ------------------------------------------------------------------------ reading
def find_kept(
    session: SessionDir, chain: Sequence[Part], plans: MutableMapping[str, Plan]
) -> Kept | None:
    """The newest kept state that counts for `chain`; None: fold from the beginning."""
    if not chain:
        return None
    with suppress(OSError):
        for epoch in reversed(session.state_caches()):
            with suppress(Unfit, OSError):
                return read_kept(session.state_cache(epoch), chain, plans)
    return None


def read_kept(
    path: Path, chain: Sequence[Part], plans: MutableMapping[str, Plan]
) -> Kept:
    """What is kept at `path`.

    Raises:
        Unfit: it does not count; says why.
        OSError: it cannot be read.
    """
    head, _, body = read_session_file(path).partition(b"\n")
    recent, cover = _header(head, body)
    _require_covered(cover, chain)
    *lines, state = body.split(b"\n", recent)
    try:
        return Kept(
            state=decode_state(state, plans),
            events=tuple(parse_record(line) for line in lines),
            cover=cover,
        )
    except (Undecodable, AutoexpError, IndexError) as error:
        raise Unfit(f"it does not read: {error}") from error


def _header(head: bytes, body: bytes) -> tuple[int, Cover]:
    try:
        tree = json.loads(head)
        same = (tree["format"], tree["code"]) == (_FORMAT, folding_code())
        whole = tree["body_sha256"] == hashlib.sha256(body).hexdigest()
        cover = tree["cover"]
        parts = tuple((str(name), int(size)) for name, size in cover.pop("parts"))
        found = int(tree["recent"]), Cover(parts=parts, **cover)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unfit("its first line does not read") from error
    if not same or not folding_code():
        raise Unfit("another version wrote it")
    if not whole:
        raise Unfit("its bytes are not those that were written")
    return found


def _require_covered(cover: Cover, chain: Sequence[Part]) -> None:
    """Refuse a state of another journal than `chain`.

    Raises:
        Unfit: says where they differ.
    """
    covered = chain[: len(cover.parts)]
    if [part.path.name for part in covered] != [name for name, _ in cover.parts]:
        raise Unfit("it was made from other parts")
    lengths = [size for _, size in cover.parts]
    if [part.length for part in covered[:-1]] != lengths[:-1]:
        raise Unfit("a part before the last counts up to another byte")
    last, length = covered[-1], lengths[-1]
    if last.length is not None and last.length < length:
        raise Unfit(f"{last.path.name} counts up to byte {last.length}, not {length}")
    if _digest(last, length) != cover.sha256:
        raise Unfit(f"{last.path.name} is not what it was made from")


def _digest(part: Part, length: int) -> str:
    """Of the first `length` bytes of a part, or of fewer when there are no more."""
    total = hashlib.sha256()
    try:
        with open_part(part.path) as file:
            while length > 0 and (block := file.read(min(length, _BLOCK))):
                total.update(block)
                length -= len(block)
    except AutoexpError as error:
        raise Unfit(str(error.problem)) from error
    return total.hexdigest()


@cache
def folding_code() -> str:
    """A digest of the code that makes a state of records: another one, another state.

    Empty where a package keeps no sources; then no state is kept.
    """
    total = hashlib.sha256()
    try:
        sources = sorted(
            source
            for package in (effects, events, model)
            for source in Path(str(package.__file__)).parent.glob("*.py")
        )
        for source in sources:
            total.update(source.name.encode() + b"\0" + source.read_bytes())
    except (OSError, TypeError):
        return ""
    return total.hexdigest() if sources else ""
