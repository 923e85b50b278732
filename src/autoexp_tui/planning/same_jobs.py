"""Which jobs of two plans are the same: by name, or by what they do.

Also what it takes to look past a name: parameters by their plain keys, and texts as
they would be if the job, or the directory that it writes to, were called otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.fingerprint import canonical
from autoexp_tui.sweep.points import NOTES, plain_key

NAME: Final = "project.name"
_NOT_PARAMETERS: Final = frozenset(
    {"start_conditions", "cancel_conditions", "start_condition_cmd", NOTES}
)
"""Compared as conditions, resolved; or notes, which change nothing."""
Pairs: TypeAlias = list[tuple[JobSpec, JobSpec]]


# ----------------------------------------------------------------------- matching
def matched(old: Plan, new: Plan) -> tuple[Pairs, list[JobSpec], list[JobSpec]]:
    """(old, new) of the same job, in the new order; what only old has; only new."""
    left = {job.name: job for job in old.jobs}
    found: dict[int, JobSpec] = {}
    for at, job in enumerate(new.jobs):
        if job.name in left:
            found[at] = left.pop(job.name)
    for key_of in (_print_of, _work_of):
        waiting = _by_key(left.values(), key_of)
        for at, job in enumerate(new.jobs):
            key = key_of(job) if waiting and at not in found else ""
            if key and waiting.get(key):
                found[at] = left.pop(waiting[key].pop(0).name)
    pairs = [(found[at], job) for at, job in enumerate(new.jobs) if at in found]
    come = [job for at, job in enumerate(new.jobs) if at not in found]
    return pairs, list(left.values()), come


def _by_key(
    jobs: Iterable[JobSpec], key_of: Callable[[JobSpec], str]
) -> dict[str, list[JobSpec]]:
    groups: dict[str, list[JobSpec]] = {}
    for job in jobs:
        if key := key_of(job):
            groups.setdefault(key, []).append(job)
    return groups


def _print_of(job: JobSpec) -> str:
    return job.fingerprint


def _work_of(job: JobSpec) -> str:
    """What a job does, whatever it and those that it follows are called.

    Its name is part of the config, so of the fingerprint, so of neither here.
    """
    mine = spelled(job.parameters)
    mine.pop(NAME, None)
    hides = Translator(
        {
            text: f"\0{at}"
            for at, name in enumerate((job.name, *job.depends_on))
            for text in _places_of(job, name)
        }
    )
    env = sorted(job.env.items())
    return canonical(hides([job.stage, mine, job.command, env, job.resources.key]))


def _places_of(job: JobSpec, name: str) -> Iterator[str]:
    """A job's name and, beside those of `job`, its directories."""
    yield name
    for directory in (job.output_dir, job.log_dir):
        root = root_of(directory, job.name)
        yield f"{root}/{name}" if root else directory


# --------------------------------------------------------------------- looking past
class Translator:
    """Replaces names and directories that differ on purpose, where they stand whole."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = {old: new for old, new in texts.items() if old and old != new}
        self._found: re.Pattern[str] | None = None

    def __call__(self, value: object) -> object:
        """`value` (nested) as it would be with the new names."""
        if not self._texts:
            return value
        if isinstance(value, str):
            return self._renamed(value)
        if isinstance(value, Mapping):
            return {key: self(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self(item) for item in value]
        return value

    def _renamed(self, text: str) -> str:
        if not any(old in text for old in self._texts):
            return text
        if self._found is None:  # most are never needed, and compiling takes its time
            longest = sorted(self._texts, key=len, reverse=True)
            either = "|".join(map(re.escape, longest))
            self._found = re.compile(rf"(?<![\w.\-])(?:{either})(?![\w.\-])")
        return self._found.sub(lambda found: self._texts[found[0]], text)


def root_of(directory: str, name: str) -> str:
    """The directory that holds the job's own; empty when that is called otherwise."""
    ending = f"/{name}"
    return directory.removesuffix(ending) if directory.endswith(ending) else ""


def spelled(parameters: Mapping[str, object]) -> dict[str, object]:
    """Parameters by their plain keys, mappings taken apart."""
    found: dict[str, object] = {}
    for key, value in parameters.items():
        plain = plain_key(key)
        if plain not in _NOT_PARAMETERS:
            found |= flat(plain, value)
    return found


def flat(key: str, value: object) -> Iterator[tuple[str, object]]:
    """(dotted key, value) of every leaf below `key`."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from flat(f"{key}.{name}", item)
    else:
        yield key, value
