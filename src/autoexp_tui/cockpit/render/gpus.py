"""What a run's GPUs do, in words; a hint where they do nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from autoexp_tui.model.wording import duration, plural, size

if TYPE_CHECKING:
    from autoexp_tui.model.snapshot import GpuLoad, GpuView

STALE_SECONDS: Final = 180.0
"""After which a sample, of which there is one every half minute, is an old one."""
IDLE_SECONDS: Final = 600.0
"""For which GPUs do nothing before that is worth a word."""
_MIB: Final = 1 << 20


def gpus_text(gpu: GpuView, now: float) -> str:
    """`4 GPUs: 81 to 93 % busy, 62 GB of 80 GB, 1240 W`; how old, when it is."""
    told = (_busy(gpu.gpus), _memory(gpu.gpus), _power(gpu.gpus))
    parts = [part for part in told if part]
    if is_stale(gpu, now):
        parts.append(f"{duration(now - gpu.seen_at)} ago")
    return f"{plural(len(gpu.gpus), 'GPU')}: {', '.join(parts) or 'they do not tell'}"


def idle_text(gpu: GpuView, now: float) -> str:
    """That the GPUs do nothing, and for how long; empty while they do something."""
    if is_stale(gpu, now) or gpu.idle_seconds < IDLE_SECONDS:
        return ""
    whose = "its GPU has" if len(gpu.gpus) == 1 else "its GPUs have"
    return f"{whose} done nothing for {duration(gpu.idle_seconds)}"


def is_stale(gpu: GpuView, now: float) -> bool:
    """Whether nobody has told anything newer for long."""
    return now - gpu.seen_at > STALE_SECONDS


def _busy(gpus: Sequence[GpuLoad]) -> str:
    known = [load.busy_percent for load in gpus if load.busy_percent is not None]
    if not known:
        return ""
    low, high = round(min(known)), round(max(known))
    return f"{low} % busy" if low == high else f"{low} to {high} % busy"


def _memory(gpus: Sequence[GpuLoad]) -> str:
    """Of the fullest one."""
    known = [
        (load.used_mib, load.total_mib)
        for load in gpus
        if load.used_mib is not None and load.total_mib
    ]
    if not known:
        return ""
    used, total = max(known, key=lambda pair: pair[0] / pair[1])
    return f"{size(used * _MIB)} of {size(total * _MIB)}"


def _power(gpus: Sequence[GpuLoad]) -> str:
    known = [load.watts for load in gpus if load.watts is not None]
    return f"{round(sum(known))} W" if known else ""
