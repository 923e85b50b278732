"""Failures that need no thought but a repair: which they are, who is asked about one,
and the run's item with the fix.

They are told by what ended the run and by the end of its log. What is not in the table
is unknown, and the research agent's; so is what only infrastructure, a person or a rule
can have caused, even where a known failure followed from it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import count
from typing import Final

from autoexp_tui.model.states import Cause
from autoexp_tui.planning.overrides import read_override_key
from autoexp_tui.research.options import Fixer
from autoexp_tui.research.state import Fix, Item, Research, Run
from autoexp_tui.text.log_lines import find_memory_line
from autoexp_tui.text.sanitize import clean


def _join(*patterns: str) -> re.Pattern[str]:
    """Of a line of a log. There is no nested repetition: the search is linear."""
    return re.compile("|".join(patterns))


MECHANICAL: Final[Mapping[str, re.Pattern[str]]] = {
    "": _join(
        # A disk is full, over its quota, or does not answer.
        r"No space left on device|[Dd]isk quota exceeded|Read-only file system",
        r"Stale file handle|\[Errno 5\] Input/output error",
        # A GPU or its driver is broken, missing or taken.
        r"\bECC error|uncorrectable NVLink error|fallen off the bus|\bXid\b",
        r"no CUDA-capable device|device\(s\) is/are busy|CUDA unknown error",
        r"CUDA driver (?:initialization failed|version is insufficient)",
        r"NVIDIA driver|Driver/library version mismatch|Failed to initialize NVML",
        r"CUDA_ERROR_(?:NO_DEVICE|ECC_|SYSTEM_)",
        # The node failed, the run had to make room, or a person ended it.
        r"DUE TO (?:NODE FAILURE|PREEMPTION)|[Nn]ode failure on |\bKeyboardInterrupt\b",
        # A program that watches itself saw a value that is no number.
        r"(?:Error|Exception): .{0,200}\b(?:nan|NaN|NAN|Inf|inf)\b",
    ),
    # The memory of a GPU or of the host was not enough.
    "oom": _join(
        r"\bOutOfMemoryError\b: |\b(?:CUDA|HIP|XPU|backend) out of memory\b",
        r"CUDA error: out of memory|Cuda failure .{0,20}'out of memory'",
        r"CUBLAS_STATUS_ALLOC_FAILED|CUDA_ERROR_OUT_OF_MEMORY",
        r"RESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate)",
        r"\b_?(?:Array)?MemoryError(?:: |$)|std::bad_alloc|\bnot enough memory: you ",
        r"\[Errno 12\] Cannot allocate memory|can't allocate memory: you tried",
        r"DataLoader worker \(pid\b.{0,40} is killed by signal: (?:Killed|Bus error)",
        r"No available memory for the cache blocks|KV cache is needed, which is larger",
    ),
    # A Python module, a name in one, or a shared library is not there.
    "missing_module": _join(
        r"\bModuleNotFoundError: |\bImportError: |python[\d.]*: No module named ",
        r"\bOSError: .{0,200}cannot open shared object file",
    ),
    # The shapes of arrays, or of a checkpoint and its model, do not fit.
    "shape": _join(
        r"\bsize mismatch for |shapes cannot be multiplied|must match the size of tens",
        r"must match the existing size|Sizes of tensors must match|to match target bat",
        r"^.{0,200}Error: shape '\[.{0,80}\]' is invalid for input of size",
        r"stack expects each tensor to be equal size|cannot reshape (?:array|tensor)",
        r"could not be broadcast together with|Incompatible shapes for broadcasting",
        r"contracting dimensions to have the same shape|mismatch in its core dimension",
        r"Error: shapes \(.{0,80} not aligned|Given groups=\d+, weight of size",
    ),
    # A check of the program's own did not hold, of its arguments or in a kernel.
    "assertion": _join(
        r"\bAssertionError(?:: |$)|\bAssertion [`'].{0,200} failed",
        r"device-side assert triggered",
        r"\b(?:ValueError|RuntimeError): .{0,300} (?:is not divisible by|must be (?:div"
        r"isible by|a multiple of))\b",
    ),
    # A limit of time was reached: the run's own, or that of waiting for another.
    "timeout": _join(
        r"DUE TO TIME LIMIT|collective operation timeout|Timed out waiting \d+ms for",
        r"\bTimeoutExpired: |\bTimeoutError(?:: (?!\[Errno)|$)|Barrier timed out",
        r"\bDataLoader timed out after",
    ),
}
"""Failure -> what tells of it, in the order in which they count: what comes first
causes what follows, be it on another rank. Of the first no fix of a config helps."""

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
    for name, pattern in MECHANICAL.items():
        is_oom = name == "oom" and find_memory_line("\n".join(telling))
        if is_oom or any(map(pattern.search, telling)):
            return name
    return known


def is_fixable(research: Research, run: Run, mechanical: str) -> bool:
    """Whether the fixer is asked about a run that failed, as long as its fixes of such
    failures, and of this run, have not failed too often in a row; else the research
    agent is."""
    options, made, first = research.options.fixer, 0, run
    while made < options.attempts and first.item.fixes in research.runs:
        first, made = research.runs[first.item.fixes], made + 1
    most = max(research.fix_streaks.get(mechanical, 0), made)
    return bool(options.agent and mechanical) and most < options.attempts


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
    as the one said that it replaces, for the config beneath has the key or not."""
    key = read_override_key(added)
    same = [it for it in overrides if it[0] != "~" and read_override_key(it) == key]
    if same and added[0] != "~":
        value = added.lstrip("+")
        added = "+" * (len(same[0]) - len(same[0].lstrip("+"))) + value
    return (*(one for one in overrides if one not in same), added)


def needs_person(fix: Fix, options: Fixer) -> bool:
    """Whether a fix sets a key that neither is one of `fixer.may_override` nor lies
    under one; `*` stands for any characters, dots too."""
    from fnmatch import fnmatchcase

    patterns = [it for one in options.may_override for it in (one, f"{one}.*")]
    keys = map(read_override_key, fix.overrides)
    return not all(any(fnmatchcase(key, it) for it in patterns) for key in keys)
