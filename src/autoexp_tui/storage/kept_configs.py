"""Configs of a plan's jobs, kept so that ten thousand of them take little room.

Most configs of a plan are one another but for a few keys, and are made as that (see
`text.structural_cache.Patched`): of them what differs is kept, beside the one whole
that they differ from. Any other config is kept as its text, compressed against the
first. Either way one job is read without the others."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.probes.yaml_text import YamlWriter
from autoexp_tui.text.plain_tree import Path, with_values
from autoexp_tui.text.structural_cache import Patched

_WINDOW: Final = 32 * 1024
"""What zlib can look back on."""
_compact: Final = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfigs:
    """One job's config as YAML, resolved and as written."""

    resolved: str
    unresolved: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What the kept configs of a plan have in common."""

    dictionary: str = ""
    """What texts are compressed against."""
    wholes: Sequence[str] = ()
    """Configs that others differ from: JSON, compressed."""


class ConfigKeeper:
    """Keeps configs while they are made; what was added must not be changed."""

    def __init__(self) -> None:
        self._dictionary: str | None = None
        self._wholes: dict[int, tuple[int, dict[Any, Any]]] = {}
        """id -> number and dict, held so that its id stays its own."""

    @property
    def shared(self) -> Shared:
        """What is needed to read what was kept."""
        wholes = [json.dumps(whole) for _, whole in self._wholes.values()]
        return Shared(
            dictionary=self._dictionary or "",
            wholes=[_pack_text(whole, "") for whole in wholes],
        )

    def kept(
        self, resolved: Mapping[str, object], unresolved: Mapping[str, object]
    ) -> str:
        """One job's configs in the form that `unpack_configs` reads."""
        if isinstance(resolved, Patched) and isinstance(unresolved, Patched):
            # No packed text begins with a bracket: base 85 has none.
            parts = (*self._split_patched(resolved), *self._split_patched(unresolved))
            return _compact(parts)
        writer = YamlWriter()
        text = f"{writer.text(resolved)}\0{writer.text(unresolved)}"
        if self._dictionary is None:
            self._dictionary = text[-_WINDOW:]
        return _pack_text(text, self._dictionary)

    def _split_patched(self, tree: Patched) -> tuple[int, list[tuple[Path, object]]]:
        """The number of the whole that a tree differs from, and in what."""
        known = self._wholes.get(id(tree.origin))
        if known is None:
            known = len(self._wholes), tree.origin
            self._wholes[id(tree.origin)] = known
        found: list[tuple[Path, object]] = []
        _note_changes(tree, (), found)
        return known[0], found


def _note_changes(tree: Patched, path: Path, found: list[tuple[Path, object]]) -> None:
    for key in tree.changed:
        value = tree[key]
        if isinstance(value, Patched) and value.origin is tree.origin.get(key):
            _note_changes(value, (*path, key), found)
        else:
            found.append(((*path, key), value))


def unpack_configs(kept: str, shared: Shared) -> JobConfigs:
    """One job's configs again.

    Raises:
        EnvironmentFailed: what was kept is damaged.
    """
    try:
        if kept.startswith("["):
            return _join_patched(kept, shared)
        text = _unpack_text(kept, shared.dictionary)
    except (ValueError, LookupError, TypeError, zlib.error) as error:
        hint = "Make the plan again with autoexp-plan."
        raise EnvironmentFailed(f"a config is damaged: {error}", hint=hint) from error
    resolved, _, unresolved = text.partition("\0")
    return JobConfigs(resolved=resolved, unresolved=unresolved)


def _join_patched(kept: str, shared: Shared) -> JobConfigs:
    first, resolved, second, unresolved = json.loads(kept)
    return JobConfigs(
        resolved=_format_yaml(shared.wholes[first], resolved),
        unresolved=_format_yaml(shared.wholes[second], unresolved),
    )


def _format_yaml(whole: str, changes: list[tuple[list[str | int], object]]) -> str:
    values = {tuple(path): value for path, value in changes}
    return YamlWriter().text(with_values(json.loads(_unpack_text(whole, "")), values))


# --------------------------------------------------------------------------- packing
def _pack_text(text: str, dictionary: str) -> str:
    packer = zlib.compressobj(6, zdict=_encode_text(dictionary))
    data = packer.compress(_encode_text(text)) + packer.flush()
    return base64.b85encode(data).decode()


def _unpack_text(packed: str, dictionary: str) -> str:
    unpacker = zlib.decompressobj(zdict=_encode_text(dictionary))
    data = unpacker.decompress(base64.b85decode(packed)) + unpacker.flush()
    return data.decode("utf-8", "surrogatepass")


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
