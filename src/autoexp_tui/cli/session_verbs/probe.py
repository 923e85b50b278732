"""What a verb is asked for, and one look at its session: the journal, who runs it, and
what only its engine knows.

Volatile detail (the queue's reasons, rates) is written only while somebody watches: a
look is a viewer for a moment, no longer than `PROBE_SECONDS`. Changes nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.open import find_session
from autoexp_tui.cli.options import Options
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.masking import MaskRules, mask_of
from autoexp_tui.model.snapshot import EngineView, Live
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import ACTIVE
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.json_codec import LiveDetail
from autoexp_tui.storage.lease import Holder, LeaseWatch
from autoexp_tui.storage.live_sink import LiveReader, ViewerHeartbeat, is_of_now
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import Present

PROBE_SECONDS = 3.0
"""An engine looks for viewers every two seconds."""


@dataclass(frozen=True)
class Request:
    """One verb, as the command line asks for it."""

    verb: str
    words: Sequence[str]
    """What follows the verb: mostly a session's id, then names of jobs."""
    args: argparse.Namespace
    """The verb's own options."""
    options: Options

    @cached_property
    def session(self) -> SessionDir:
        """The session that the first word names; raises UsageError or
        EnvironmentFailed."""
        if not self.words:
            raise UsageError(
                f"{self.verb}: which session?",
                hint="`autoexp-sessions list` names them.",
            )
        return find_session(self.options, self.words[0])

    @property
    def names(self) -> Sequence[str]:
        """The words behind the session's id."""
        return self.words[1:]

    def print(self, record: object, lines: Iterable[str]) -> int:
        """Print a record for programs, or lines for people; the exit code."""
        print(json.dumps(record) if self.options.json else "\n".join(lines))
        return ExitCode.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A session as it was seen."""

    session: SessionDir
    state: SessionState
    holder: Holder | None
    """Of the newest lease; None before the first engine."""
    alive: Alive
    """Whether that engine lives, as far as can be told from here."""
    now: Present
    """UTC."""
    engine: EngineView | None = None
    """Its engine's own health; None while it does not tell."""
    live: Mapping[str, Live] = field(default_factory=dict)

    @property
    def mask(self) -> MaskRules:
        """What its first plan says of secrets."""
        return mask_of(self.state.plan)


def load(session: SessionDir) -> SessionState:
    """The session as its journal tells it; raises JournalDamaged where it cannot be
    read, EnvironmentFailed where the disk refused."""
    return load_state(session, tail=1).state


def look_at(session: SessionDir) -> Sight:
    """Look at a session once; raises JournalDamaged or EnvironmentFailed."""
    state, watch = load(session), LeaseWatch(session)
    holder = watch.find_holder()
    alive = watch.check_alive(holder, 0.0)
    detail = None
    if alive is not Alive.NO and any(j.state in ACTIVE for j in state.jobs.values()):
        detail = _read_volatile(session, state)
    return Sight(
        session=session,
        state=state,
        holder=holder,
        alive=alive,
        now=state.present(time.time()),
        engine=detail.engine if detail else None,
        live=detail.jobs if detail else {},
    )


def _read_volatile(session: SessionDir, state: SessionState) -> LiveDetail | None:
    """What the engine tells whoever watches; nothing that is older than `state`.

    It writes what is new as soon as somebody watches, so what it does not write anew
    still holds, unless the journal has gone on since.
    """
    reader, heartbeat = LiveReader(session), ViewerHeartbeat(session)

    def is_current(detail: LiveDetail | None) -> bool:
        return detail is not None and is_of_now(detail, state.seq, state.epoch)

    before = detail = reader.read()
    if heartbeat.beat():
        deadline = time.monotonic() + PROBE_SECONDS
        while time.monotonic() < deadline:
            if detail is not before and is_current(detail):
                break
            time.sleep(0.05)
            detail = reader.read()
    heartbeat.close()
    return detail if is_current(detail) else None


def require_jobs(state: SessionState, names: Sequence[str]) -> None:
    """Names are jobs of the session; raises UsageError."""
    unknown = [name for name in names if name not in state.jobs]
    if not unknown:
        return
    near = get_close_matches(unknown[0], state.order, n=3, cutoff=0.6)
    meant = f"Did you mean {' or '.join(map(clean, near))}? " if near else ""
    raise UsageError(
        f"no job {unknown[0]!r} in session {state.session}",
        hint=f"{meant}`autoexp-sessions show {state.session}` names them.",
    )
