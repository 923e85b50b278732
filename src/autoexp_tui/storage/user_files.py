"""What is kept of this user outside of sessions: known places, columns of tables, a
key, crash logs. The list of places (`state-dirs`) only helps to find sessions again:
one that cannot be read is empty, one that cannot be written is done without."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Final

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.probes.pools import ask_all
from autoexp_tui.storage.atomic import (
    explaining,
    link_new,
    make_directory,
    make_private,
    write_atomic,
)
from autoexp_tui.storage.trust import open_checked, read_checked

ANSWER_SECONDS = 2.0
"""How long a place, or a session, is given to be looked at."""
_LONGEST = 256 * 1024
_KEY_BYTES = 32


def find_user_file(name: str) -> Path | None:
    """A file of the user's state, there or not; None where the user has no home."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(base, "autoexp-tui", name) if os.path.isabs(base) else None


def note_place(state_dir: Path) -> None:
    place = os.path.realpath(state_dir)
    file = find_user_file("state-dirs")
    if file is None or "\n" in place or place in _read_places():
        return
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, os.fsencode(f"{place}\n"))
        finally:
            os.close(handle)


def list_places(first: Path) -> tuple[Path, ...]:
    """`first`, and behind it the listed directories that are there and are others."""
    own = os.path.realpath(first)
    lines = [line for line in _read_places() if line != own]
    there = ask_all([partial(os.path.isdir, line) for line in lines], ANSWER_SECONDS)
    # One that did not answer stays: it is told when it is looked into.
    found = (line for line, is_there in zip(lines, there, strict=True) if is_there)
    return (first, *map(Path, found))


def _read_places() -> tuple[str, ...]:
    file = find_user_file("state-dirs")
    if file is None:
        return ()
    try:
        with open_checked(file, "own") as opened_file:
            data = opened_file.read(_LONGEST)
    except OSError:
        return ()
    texts = map(os.fsdecode, data.split(b"\n"))
    return tuple(dict.fromkeys(text for text in texts if os.path.isabs(text)))


def hash_keyed(text: str) -> str:
    """The digest of a text in hex, under the user's own key, without which a short
    password would be found by trying; a key that cannot be kept is this process's."""
    data = text.encode("utf-8", "surrogatepass")
    return hmac.new(_load_key(), data, hashlib.sha256).hexdigest()[:32]


@cache
def _load_key() -> bytes:
    place, made = find_user_file("digest-key"), secrets.token_bytes(_KEY_BYTES)
    with suppress(OSError, EnvironmentFailed):
        if place is not None and not place.exists():
            make_directory(place.parent)
            link_new(place, made)
        found = read_checked(place, "own", _KEY_BYTES) if place is not None else b""
        return found if len(found) == _KEY_BYTES else made
    return made


def write_crash_log(text: str, name: str, directory: Path) -> Path:
    """Keep a text in a new file with a name that cannot be guessed, below `directory`,
    else among temporary files; raises OSError."""
    stem, suffix = os.path.splitext(name)
    try:
        make_private(directory)
        handle, path = tempfile.mkstemp(suffix, f"{stem}-", directory)
    except OSError:
        handle, path = tempfile.mkstemp(suffix, f"autoexp-{stem}-")
    with os.fdopen(handle, "wb") as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    return Path(path)


_MOST_CONFIGS: Final = 200
_MOST_BYTES: Final = 1 << 20


def read_columns(config: str) -> Sequence[str]:
    """The ids of the columns that a person chose for the table of a config, none where
    nobody chose any: `columns.json`, `{"version": 1, "configs": {CONFIG: [ID, ...]}}`,
    the newest last. Raises EnvironmentFailed: it cannot be read, or is none of ours."""
    file = find_user_file("columns.json")
    return _read_choices(file).get(config, ()) if file is not None else ()


def keep_columns(config: str, columns: Sequence[str]) -> None:
    """Remember a config's columns, none for the usual ones; what cannot be read is put
    aside as `columns.json.bad`; raises EnvironmentFailed."""
    file = find_user_file("columns.json")
    if file is None:
        raise EnvironmentFailed("there is no home directory", "$HOME")
    try:
        known = dict(_read_choices(file))
    except EnvironmentFailed:
        known = {}
        with suppress(OSError):
            os.replace(file, f"{file}.bad")
    known.pop(config, None)
    if columns:
        known[config] = tuple(columns)
    newest = dict([*known.items()][-_MOST_CONFIGS:])
    make_directory(file.parent)
    data = json.dumps({"version": 1, "configs": newest}, indent=1).encode()
    write_atomic(file, data, durable=False)


def _read_choices(file: Path) -> Mapping[str, Sequence[str]]:
    with explaining(file, "read"):
        try:
            data = read_checked(file, "own", _MOST_BYTES)
        except FileNotFoundError:
            return {}
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    configs = content.get("configs") if isinstance(content, dict) else None
    if not isinstance(configs, dict) or not all(map(_is_choice, configs.values())):
        problem = "this is no list of columns by config"
        hint = "It is put aside when columns are chosen again."
        raise EnvironmentFailed(problem, str(file), hint)
    return {config: tuple(chosen) for config, chosen in configs.items()}


def _is_choice(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
