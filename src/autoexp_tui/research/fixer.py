"""Failures that need no thought but a repair: which they are, who is asked about one,
and the run's item with the fix.

They are told by what ended the run and by the end of its log. What is not in the table
is unknown, and the research agent's; so is what only infrastructure, a person or a rule
can have caused, even where a known failure followed from it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from itertools import count
from typing import Final, Literal, NamedTuple

from autoexp_tui.model.states import Cause
from autoexp_tui.planning.overrides import read_override_key
from autoexp_tui.research.options import Fixer
from autoexp_tui.research.state import Fix, Item, Research, Run
from autoexp_tui.text.log_lines import find_memory_line
from autoexp_tui.text.sanitize import clean


class Failure(NamedTuple):
    name: str
    """Empty: no fix of a config helps, and no row below counts."""
    meaning: str
    """For people, and for the agent that is to repair it."""
    pattern: re.Pattern[str]
    """Of a line of the log. It has no nested repetition: its search is linear."""


def _row(name: str, meaning: str, *patterns: str) -> Failure:
    return Failure(name, meaning, re.compile("|".join(patterns)))


MECHANICAL: Final = (
    _row(
        "",
        "a disk is full, over its quota, or does not answer",
        r"No space left on device|[Dd]isk quota exceeded|Read-only file system",
        r"Stale file handle|\[Errno 5\] Input/output error",
    ),
    _row(
        "",
        "a GPU or its driver is broken, missing or taken",
        r"\bECC error|uncorrectable NVLink error|fallen off the bus|\bXid\b",
        r"no CUDA-capable device|device\(s\) is/are busy|CUDA unknown error",
        r"CUDA driver (?:initialization failed|version is insufficient)",
        r"NVIDIA driver|Driver/library version mismatch|Failed to initialize NVML",
        r"CUDA_ERROR_(?:NO_DEVICE|ECC_|SYSTEM_)",
    ),
    _row(
        "",
        "the node failed, or the run had to make room",
        r"DUE TO (?:NODE FAILURE|PREEMPTION)|[Nn]ode failure on ",
    ),
    _row("", "a person ended it", r"\bKeyboardInterrupt\b"),
    _row(
        "",
        "a program that watches itself saw a value that is no number",
        r"(?:Error|Exception): .{0,200}\b(?:nan|NaN|NAN|Inf|inf)\b",
    ),
    _row(
        "oom",
        "the memory of a GPU or of the host was not enough",
        r"\bOutOfMemoryError\b: |\b(?:CUDA|HIP|XPU|backend) out of memory\b",
        r"CUDA error: out of memory|Cuda failure .{0,20}'out of memory'",
        r"CUBLAS_STATUS_ALLOC_FAILED|CUDA_ERROR_OUT_OF_MEMORY",
        r"RESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate)",
        r"\b_?(?:Array)?MemoryError(?:: |$)|std::bad_alloc|\bnot enough memory: you ",
        r"\[Errno 12\] Cannot allocate memory|can't allocate memory: you tried",
        r"DataLoader worker \(pid\b.{0,40} is killed by signal: (?:Killed|Bus error)",
        r"No available memory for the cache blocks|KV cache is needed, which is larger",
    ),
    _row(
        "missing_module",
        "a Python module, a name in one, or a shared library is not there",
        r"\bModuleNotFoundError: |\bImportError: |python[\d.]*: No module named ",
        r"\bOSError: .{0,200}cannot open shared object file",
    ),
    _row(
        "shape",
        "the shapes of arrays, or of a checkpoint and its model, do not fit",
        r"\bsize mismatch for |shapes cannot be multiplied|must match the size of tens",
        r"must match the existing size|Sizes of tensors must match|to match target bat",
        r"^.{0,200}Error: shape '\[.{0,80}\]' is invalid for input of size",
        r"stack expects each tensor to be equal size|cannot reshape (?:array|tensor)",
        r"could not be broadcast together with|Incompatible shapes for broadcasting",
        r"contracting dimensions to have the same shape|mismatch in its core dimension",
        r"Error: shapes \(.{0,80} not aligned|Given groups=\d+, weight of size",
    ),
    _row(
        "assertion",
        "a check of the program's own did not hold, of its arguments or in a kernel",
        r"\bAssertionError(?:: |$)|\bAssertion [`'].{0,200} failed",
        r"device-side assert triggered",
        r"\b(?:ValueError|RuntimeError): .{0,300} (?:is not divisible by|must be (?:div"
        r"isible by|a multiple of))\b",
    ),
    _row(
        "timeout",
        "a limit of time was reached: the run's own, or that of waiting for another",
        r"DUE TO TIME LIMIT|collective operation timeout|Timed out waiting \d+ms for",
        r"\bTimeoutExpired: |\bTimeoutError(?:: (?!\[Errno)|$)|Barrier timed out",
        r"\bDataLoader timed out after",
    ),
)
"""In the order in which they count: what comes first causes what follows, be it on
another rank. A failure that the executor itself told has no need of a row."""

_BY_CAUSE: Final[dict[str, str]] = {
    Cause.EXIT_CODE: "",
    Cause.SIGNAL: "",
    Cause.OUT_OF_MEMORY: "oom",
    Cause.TIMEOUT: "timeout",
}
"""The causes that may be mechanical -> what they are when the log says no more."""
_LINES: Final = 200
_COLUMNS: Final = 1000
_HANDLED: Final = re.compile(r"\b(?:WARNING|WARN|INFO|DEBUG)\b|Warning: ")
"""Lines that tell of something with which the program went on."""


def classify_failure(cause: str, tail: str) -> str:
    """The name of a mechanical failure, empty for every other.

    `cause`: of the job that ended the run, as `model.states.Cause` has it; `tail`: the
    end of its log, cleaned or not, of which the last 200 lines are read.
    """
    known = _BY_CAUSE.get(cause)
    if known is None or cause == Cause.OUT_OF_MEMORY:
        return known or ""
    lines = [clean(line[:_COLUMNS]) for line in tail.splitlines()[-_LINES:]]
    telling = [line for line in lines if not _HANDLED.search(line)]
    for row in MECHANICAL:
        is_oom = row.name == "oom" and find_memory_line("\n".join(telling))
        if is_oom or any(map(row.pattern.search, telling)):
            return row.name
    return known


def plan_next(
    research: Research, run: Run, mechanical: str
) -> Literal["fix", "research"]:
    """Who is asked about a run that failed: the fixer, as long as its fixes of such
    failures, and of this run, have not failed too often in a row."""
    options, made, first = research.options.fixer, 0, run
    while made < options.attempts and first.item.fixes in research.runs:
        first, made = research.runs[first.item.fixes], made + 1
    most = max(research.fix_streaks.get(mechanical, 0), made)
    is_fixable = options.agent and mechanical and most < options.attempts
    return "fix" if is_fixable else "research"


_FIXED: Final = re.compile(r"_fix\d+\Z")


def build_fixed_item(run: Run, fix: Fix, taken: Collection[str]) -> Item:
    """The item of a run with the overrides of a fix, not planned yet; `taken`: ids that
    it may not have. A key that is set already is set anew, last."""
    base = _FIXED.sub("", run.id) if run.item.fixes else run.id
    names = (f"{base}_fix{number}" for number in count(1))
    overrides = run.item.overrides
    for added in fix.overrides:
        overrides = _set_override(overrides, added)
    return replace(
        run.item,
        id=next(name for name in names if name not in taken),
        overrides=overrides,
        jobs=(),
        fixes=run.id,
    )


def _set_override(overrides: tuple[str, ...], added: str) -> tuple[str, ...]:
    """With one more. Whether Hydra sets, adds or forces a key (nothing, `+`, `++`) is
    as the one said that it replaces, for the config beneath has the key or not. What
    was added and is to be deleted goes."""
    key = read_override_key(added)
    same = [one for one in overrides if read_override_key(one) == key]
    others = tuple(one for one in overrides if one not in same)
    if not same:
        return (*others, added)
    before, after = _read_sign(same[0]), _read_sign(added)
    if after == "~":
        return others if before.startswith("+") else (*others, added)
    sign = "" if before == "~" else before
    return (*others, sign + added[len(after) :])


def _read_sign(override: str) -> str:
    return override[: len(override) - len(override.lstrip("+~"))]


def needs_person(fix: Fix, options: Fixer) -> bool:
    """Whether a fix sets a key that neither is one of `fixer.may_override` nor lies
    under one."""
    keys = map(read_override_key, fix.overrides)
    return not all(_may_set(key, options.may_override) for key in keys)


def _may_set(key: str, patterns: Collection[str]) -> bool:
    """`*` stands for any characters, dots too."""
    from fnmatch import fnmatchcase

    parts = key.split(".")
    heads = [".".join(parts[:number]) for number in range(1, len(parts) + 1)]
    return any(fnmatchcase(head, pattern) for pattern in patterns for head in heads)
