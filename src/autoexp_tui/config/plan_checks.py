"""What a plan names outside, looked at while planning: nothing is to be found broken
by a dead job, or a rule that fires, in the night.

Where jobs are to write: room, inodes, quota, permission; a place that does not answer
in time is told as that. What actions name: configs, files, programs, override grammar;
what holds a reference is known only when a rule fires, and passed over.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import OverrideParseException

from autoexp_tui.actions.kinds import NewJob, Restart, RunAutoexp, RunCommand
from autoexp_tui.conditions.bindings import (
    USE_ARGUMENT,
    Lacking,
    bind,
    explain_never,
    is_joining_words,
    list_own_fields,
)
from autoexp_tui.config.hydra_errors import explain_unreadable
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.masking import Share
from autoexp_tui.model.rules import Action
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.validate import Lint, list_rule_sets
from autoexp_tui.probes.bounded_command import run_bounded
from autoexp_tui.probes.config_files import list_configs
from autoexp_tui.probes.pools import ask_all
from autoexp_tui.storage.done_file import filter_existing
from autoexp_tui.storage.trust import (
    Untrusted,
    has_no_modes,
    require_below,
    require_logs,
    require_place,
)
from autoexp_tui.text.did_you_mean import did_you_mean, find_slip
from autoexp_tui.text.spelling import size

WHERE: Final = "project.base_output_dir"
LEAST_BYTES: Final = 200 << 20
"""Less than this lets no job write its first log and checkpoint."""
FEW_BYTES: Final = 2 << 30
FILES_PER_JOB: Final = 20
"""What a job writes at least: logs, records, provenance."""
ANSWER_SECONDS: Final = 15.0
_QUOTA_SECONDS: Final = 5.0

Quota: TypeAlias = tuple[int, str]
"""How much more a user may write, of `bytes` or `files`."""
Finding: TypeAlias = tuple[Problem, bool]
"""What is wrong, and whether nothing can run like that."""


def check_output_places(
    place: Path,
    jobs: Sequence[JobSpec] = (),
    *,
    share: Share = "private",
    seconds: float = ANSWER_SECONDS,
) -> Sequence[Finding]:
    """What there is to say; a place that does not answer in `seconds` is a warning."""
    (found,) = ask_all([lambda: [*find_problems(place, jobs, share)]], seconds)
    if isinstance(found, TimeoutError):
        message = f"{place} did not answer within {seconds:g} s"
        hint = "look at it with `df`; jobs that write there would hang as well"
        return [(Problem(message, WHERE, hint=hint), False)]
    if isinstance(found, Exception):
        raise found
    return found


def find_problems(
    place: Path, jobs: Sequence[JobSpec], share: Share
) -> Iterator[Finding]:
    """What is wrong with the disk, and with who may write there."""
    try:
        yield from [*_check_disk(place, len(jobs))]
    except OSError as error:
        message = f"{place} cannot be looked at: {error.strerror or error}"
        yield Problem(message, WHERE), False
    reported: set[str] = set()
    for where, look in _list_looks(place, jobs, share):
        try:
            look()
        except Untrusted as error:
            path = str(error.filename)
            if path not in reported:
                reported.add(path)
                message = f"{path} is not written to: {error.strerror}"
                yield Problem(message, where, hint=error.hint), True
        except OSError:
            continue  # told by who looks at the disk, or when it is used
    if os.path.isdir(place) and has_no_modes(place):
        message = (
            f"modes of files mean nothing at {place}: only their owners are looked at"
        )
        hint = "whoever else can reach that file system may change what lies there"
        yield Problem(message, WHERE, hint=hint), False


def _list_looks(
    place: Path, jobs: Sequence[JobSpec], share: Share
) -> Iterator[tuple[str, Callable[[], None]]]:
    """What refuses directories of others, or that everybody may write to."""
    if is_there := os.path.exists(place):
        yield WHERE, partial(require_place, place)
    homes: dict[str, set[str]] = {}
    for job in jobs:
        if job.log_dir:
            home, name = os.path.split(job.log_dir)
            homes.setdefault(home, set()).add(name)
    for home in sorted(homes):
        if is_there or not home.startswith(f"{place}{os.sep}"):
            yield "slurm.log_dir", partial(require_logs, place, home, share)
    for job in filter_existing(jobs) if is_there else ():
        own = Path(job.output_dir, ".autoexp")
        yield WHERE, partial(require_below, place, own, share)
    for home, names in sorted(homes.items()):
        with suppress(OSError):
            for name in names.intersection(os.listdir(home)):
                log_dir = Path(home, name)
                yield "slurm.log_dir", partial(require_logs, place, log_dir, share)


def _check_disk(wanted: Path, jobs: int) -> Iterator[Finding]:
    """The state of the directory itself, or of the one in which it would be made."""
    there = next(p for p in (wanted, *wanted.absolute().parents) if p.exists())
    found = os.statvfs(there)
    place = str(there).replace("{", "{{").replace("}", "}}")
    message = ""
    if not there.is_dir():
        message = f"{there} is a file, not a directory"
    elif found.f_flag & os.ST_RDONLY:
        message = f"{there} is mounted read-only"
    elif not os.access(there, os.W_OK | os.X_OK):
        made = "" if there == wanted else f"{wanted} cannot be made: "
        message = f"{made}you may not write to {there}"
    if message:
        hint = "choose another directory that you may write to"
        yield Problem(message, WHERE, hint=hint), True
    left: list[tuple[str, int, str, int, int]] = []
    room = FEW_BYTES, LEAST_BYTES
    if found.f_blocks:  # one in user space or over a network may not say what it holds
        free = found.f_bavail * found.f_frsize
        left.append((f"{{}} free at {place}", free, "bytes", *room))
    if found.f_files:
        few = jobs * FILES_PER_JOB
        what = f"{{}} can be made at {place}"
        left.append((what, found.f_favail, "more files", few, jobs))
    for amount, unit in read_quotas(there):
        few, least = room if unit == "bytes" else (1000, 1)
        what = f"your quota at {place} leaves {{}}"
        left.append((what, amount, unit, few, least))
    for what, amount, unit, few, least in left:
        if amount < few:
            shown = size(amount) if unit == "bytes" else f"{amount} {unit}"
            hint = "make room, or choose another directory; checkpoints are large"
            message = what.format(shown)
            yield Problem(message, WHERE, hint=hint), amount < least


def read_quotas(there: Path) -> Sequence[Quota]:
    """The user's limits where `there` lies, as the file system's own tool tells."""
    user = str(os.getuid())
    if not any(map(shutil.which, ("lfs", "quota"))):
        return ()
    system = _run_tool("df", "--output=fstype,source", str(there)).split()
    kind, source = system[-2:] if len(system) > 1 else ("", "")
    if kind == "lustre":
        return _parse_quota(_run_tool("lfs", "quota", "-q", "-u", user, str(there)))
    lines = _run_tool("quota", "-w", "-p", "-u", user).splitlines() if source else ()
    own = (line for line in lines if line.split()[:1] == [source])
    return _parse_quota(next(own, ""))


def _run_tool(*command: str) -> str:
    """What a tool prints; nothing where there is none, or it takes too long."""
    ran = run_bounded(command, _QUOTA_SECONDS)
    return "" if ran.exit_code is None else ran.detail


def _parse_quota(text: str) -> Sequence[Quota]:
    """The limits in a line `PLACE USED SOFT HARD GRACE FILES SOFT HARD GRACE`. As `lfs
    quota -q` and `quota -w -p` write it: kilobytes, `*` at what is too much, `-` or 0
    for none."""
    words = text.replace("*", "").split()[1:]
    if len(words) < 7:
        return ()
    numbers = [int(word) if word.isdigit() else 0 for word in words]
    kinds = ((numbers[:3], 1024, "bytes"), (numbers[4:7], 1, "files"))
    return [
        (max(0, (hard or soft) - used) * factor, unit)
        for (used, soft, hard), factor, unit in kinds
        if hard or soft
    ]


_REFERENCE: Final = re.compile(r"\{[^{}]*\}")
_PLACEHOLDER: Final = "x"
_LINE: Final = "line"


class ActionChecks(Lint):
    """Looks at the actions of all rules of a plan. Errors: a rule that cannot do what
    it says, whatever happens; warnings: what is not there yet, and may still come."""

    def __init__(self, plan: Plan, roots: Iterable[Path], cwd: Path) -> None:
        """`roots`: where configs are looked for."""
        super().__init__(plan)
        logs = (one.event for one in self.list_rules())
        groups = (getattr(event, "extract_groups", ()) for event in logs)
        self._extracted = {_LINE, *chain.from_iterable(groups)}
        """What log events have; of any, the line that triggers a rule."""
        self._configs = list_configs(roots)
        self._cwd = cwd
        self._parser = OverridesParser.create()

    def check_plan(self) -> None:
        """Check every rule that any job of the plan is under."""
        for rule in self.list_rules():
            for at, action in enumerate(rule.event.actions):
                where, job = f"{rule.where}.actions.{at}", rule.job
                match action:
                    case RunAutoexp():
                        self._check_config(action, where, job)
                        self._check_overrides(action, where, job)
                    case Restart():
                        self._check_overrides(action, where, job)
                    case RunCommand(command=words) | NewJob(command=words):
                        self._check_program(words[0], f"{where}.command", job)
                self._check_references(action, where, job)
        for job, rules in list_rule_sets(self.plan):
            self._check_notify(rules.notify_command, job)
        for spec in self.plan.jobs:
            # What its own conditions take from logs of others.
            for role in ("start_conditions", "cancel_conditions"):
                for at, part in enumerate(getattr(spec, role)):
                    _, lacking = bind(part, lambda _job, _key: _PLACEHOLDER, self.jobs)
                    self._refuse_values(lacking, f"{role}.{at}", spec.name)

    def _check_references(self, action: Action, where: str, job: str) -> None:
        """What a rule asks for when it fires, and nothing will ever have told."""

        def look_up(_job: str, key: str) -> str | None:
            return _PLACEHOLDER if key in self._extracted else None

        fields = set(list_own_fields(self.jobs[job], 1)) if job else self._fields
        own = dict.fromkeys([*fields, _LINE], _PLACEHOLDER)
        _, lacking = bind(action, look_up, self.jobs, own)
        self._refuse_values(lacking, where, job)
        untold = {one.key for one in lacking if not one.problem} if self.jobs else ()
        for key in sorted(untold):  # of jobs that are made later nothing is known
            hint = did_you_mean(key, sorted(self._extracted | fields), "names")
            message = f"{{{key}}} is told by nothing: no log event extracts `{key}`"
            self.warn(message, where, job, hint)

    @cached_property
    def _fields(self) -> set[str]:
        """Of any job: the rules are those of the plan."""
        return {key for job in self.jobs.values() for key in list_own_fields(job, 1)}

    def _refuse_values(self, lacking: Iterable[Lacking], where: str, job: str) -> None:
        for one in sorted({one for one in lacking if one.problem}):
            hint = USE_ARGUMENT.replace("key", one.key)
            self.refuse(f"{{{one.key}}}: {one.problem}", where, job, hint)

    def _check_notify(self, words: Sequence[str], job: str) -> None:
        """The message, which may hold a log's text, becomes the last word."""
        never = words and explain_never((*words, "{m}"), len(words), 0, 3)
        if never or is_joining_words(words):
            hint = "use a program that takes the message as its last word"
            never = never or "in a text for a shell"
            message = f"the message, which may hold a log's text, would stand {never}"
            self.refuse(message, "notify.command", job, hint)

    def _check_config(self, action: RunAutoexp, where: str, job: str) -> None:
        ref, path = action.config_ref, action.config_path
        known = ref.removesuffix(".yaml") in self._configs or _REFERENCE.search(ref)
        if ref and not known:
            meant = find_slip(ref, self._configs) or ref
            hint = did_you_mean(meant, self._configs, "configs")
            self.refuse(f"there is no config `{ref}`", f"{where}.config_ref", job, hint)
        if path and not _REFERENCE.search(path) and not self._find(path).is_file():
            hint = "it is read when the rule fires, and must be there by then"
            self.warn(f"{path} is not there", f"{where}.config_path", job, hint)

    def _check_overrides(
        self, action: RunAutoexp | Restart, where: str, job: str
    ) -> None:
        for at, text in enumerate(action.overrides):
            try:
                self._parser.parse_overrides([_REFERENCE.sub(_PLACEHOLDER, text)])
            except OverrideParseException:
                found = explain_unreadable(text)
                place = f"{where}.overrides.{at}"
                self.refuse(found.message, place, job, found.hint)

    def _check_program(self, program: str, where: str, job: str) -> None:
        path = str(self._find(program)) if "/" in program else program
        if not _REFERENCE.search(program) and shutil.which(path) is None:
            hint = "give its path, or install it where the engine runs"
            self.warn(f"there is no program {program} here", where, job, hint)

    def _find(self, path: str) -> Path:
        return self._cwd / Path(path).expanduser()
