"""Agents as configs name them, and how a call of one ended: what policies decide by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, TypeAlias


class Outcome(StrEnum):
    """How a call of an agent ended."""

    OK = "ok"
    NO_OUTPUT = "no_output"
    """It ended well, and what it was to write is not there."""
    BAD_OUTPUT = "bad_output"
    """What it wrote is no JSON, not of the schema, too large, or no regular file."""
    AGENT_ERROR = "agent_error"
    AUTH_ERROR = "auth_error"
    RATE_LIMIT = "rate_limit"
    UNAVAILABLE = "unavailable"
    """The service behind it fails, or cannot be reached."""
    NOT_FOUND = "not_found"
    """Its program is not there, or does not start."""
    TIMEOUT = "timeout"
    IDLE_TIMEOUT = "idle_timeout"
    MAX_STEPS = "max_steps"
    MAX_DISK = "max_disk"
    CANCELLED = "cancelled"


PASSED_ON: Final = frozenset({Outcome.RATE_LIMIT, Outcome.UNAVAILABLE})
"""After these the next agent of a role's chain may do better."""
BackendName: TypeAlias = Literal["scripted", "command", "codex", "claude"]
DISK_BYTES: Final = 16 << 30
Sandbox: TypeAlias = Literal["read-only", "workspace-write", "full"]
"""What a CLI's own sandbox lets through; inside our isolation it is off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`agents.NAME.limits`: of one call."""

    wall_seconds: float = 1800.0
    idle_seconds: float = 300.0
    """Without a byte of output."""
    steps: int | None = None
    """Uses of tools; null: any number."""
    exit_seconds: float = 10.0
    """For which a program may linger after its last event."""
    stop_seconds: float = 5.0
    """Between asking its processes to end and killing them."""
    output_bytes: int = 8 << 20
    """Of the transcript, and of all that it was to write."""
    disk_bytes: int = DISK_BYTES
    """Of each file that it writes, and of all in its directories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """`agents.NAME.prices`: money per million tokens, in the user's currency."""

    input: float = 0.0
    cached_input: float | None = None
    """null: as `input`."""
    cache_write: float | None = None
    """null: as `input`."""
    output: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """`agents.NAME`: a back end and how it is used."""

    backend: BackendName
    command: tuple[str, ...] = ()
    """The program and its first words; of `scripted`: `module:function`, or a file."""
    model: str = ""
    """Empty: the program's own choice."""
    limits: Limits = Limits()
    env: Mapping[str, str | None] = field(default_factory=dict)
    """Variables that it gets beside the usual few; null: with the job's value."""
    prices: Prices | None = None
    sandbox: Sandbox = "workspace-write"
    files: tuple[str, ...] = ()
    """Logins and settings below the user's home that it finds in its own."""


@dataclass(frozen=True, slots=True)
class AgentsSettings:
    """`agents`."""

    isolation: Literal["require", "prefer", "none"] = "prefer"
    """Whether agents and candidates run only where they can be fenced in."""
    by_name: Mapping[str, AgentSpec] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call, or of several."""

    input_tokens: int = 0
    """All that it read, cached ones and those written to a cache included."""
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


def estimate_cost(usage: Usage, prices: Prices) -> float:
    """What tokens cost, in the currency of `prices`."""
    special = usage.cached_tokens + usage.cache_write_tokens
    cached, written = (
        prices.input if price is None else price
        for price in (prices.cached_input, prices.cache_write)
    )
    millionths = (
        max(0, usage.input_tokens - special) * prices.input
        + usage.cached_tokens * cached
        + usage.cache_write_tokens * written
        + usage.output_tokens * prices.output
    )
    return millionths / 1e6


def choose_next(chain: Sequence[str], outcomes: Sequence[Outcome]) -> str | None:
    """The agent of a role that is called next, after calls with `outcomes`, in order;
    None: no other may do what the last one could not, or none is left."""
    if outcomes and outcomes[-1] not in PASSED_ON:
        return None
    return chain[len(outcomes)] if len(outcomes) < len(chain) else None
