"""Apptainer (and Singularity), only where a command runs in a container anyway: the
flags that keep its files apart. Unproved, so nothing is promised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from autoexp_tui.isolation.port import Isolation, Profile, Promise

_PROGRAMS: Final = frozenset({"apptainer", "singularity"})
_VERBS: Final = frozenset({"exec", "run"})


@dataclass(frozen=True)
class Container(Isolation):
    """Adds its flags to an `apptainer exec` or `apptainer run`."""

    name = "container"
    promises = frozenset[Promise]()

    def wrap(self, argv: Sequence[str], profile: Profile) -> tuple[str, ...]:
        """As of the port; raises ValueError for a command without such a verb."""
        verb = next((n for n, word in enumerate(argv) if word in _VERBS), 0)
        names = {PurePath(word).name for word in argv[:verb]}
        if not names & _PROGRAMS:
            raise ValueError(f"no apptainer exec or run: {' '.join(argv[:3])}")
        return (*argv[: verb + 1], *list_flags(profile), *argv[verb + 1 :])

    def summarize(self) -> str:
        return f"{self.name}: unproved, nothing is promised"


def list_flags(profile: Profile) -> Iterator[str]:
    """Flags for a container that sees its image and the profile's paths alone."""
    yield from ("--containall", "--no-privs")
    if profile.network == "none":
        yield from ("--net", "--network", "none")
    for path in profile.list_readable():
        if path.exists():
            yield from ("--bind", f"{path}:{path}:ro")
    for path in profile.list_writable():
        yield from ("--bind", f"{path}:{path}")
    yield from ("--env", f"TMPDIR={profile.tmp}", "--home", str(profile.home))
