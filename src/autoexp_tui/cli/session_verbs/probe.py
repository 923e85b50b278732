"""One look at a session: its journal, who runs it, and what only its engine knows.

Volatile detail (the queue's reasons, rates) is written only while somebody watches: a
look is a viewer for a moment, no longer than `SIGHT_SECONDS`. Changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autoexp_tui.model.masking import mask_of
from autoexp_tui.model.moment import Present
from autoexp_tui.model.states import ACTIVE

if TYPE_CHECKING:
    from autoexp_tui.model.masking import MaskRules
    from autoexp_tui.model.snapshot import EngineView, Live
    from autoexp_tui.model.state import SessionState
    from autoexp_tui.storage.json_codec import LiveDetail
    from autoexp_tui.storage.lease import Holder
    from autoexp_tui.storage.process_identity import Alive
    from autoexp_tui.storage.session_dir import SessionDir

SIGHT_SECONDS = 3.0
"""An engine looks for viewers every two seconds."""


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


def look_at(session: SessionDir) -> Sight:
    """Look at a session once.

    Raises:
        JournalDamaged: it cannot be read.
        EnvironmentFailed: the disk refused.
    """
    from autoexp_tui.storage.journal import load_state
    from autoexp_tui.storage.lease import LeaseWatch
    from autoexp_tui.storage.process_identity import Alive

    state = load_state(session, tail=1).state
    watch = LeaseWatch(session)
    holder = watch.holder()
    alive = watch.alive(holder, 0.0)
    engine: EngineView | None = None
    live: Mapping[str, Live] = {}
    if alive is not Alive.NO and _has_volatile(state):
        engine, live = _volatile(session, state)
    return Sight(
        session=session,
        state=state,
        holder=holder,
        alive=alive,
        now=state.present(time.time()),
        engine=engine,
        live=live,
    )


def _has_volatile(state: SessionState) -> bool:
    return any(job.state in ACTIVE for job in state.jobs.values())


def _volatile(
    session: SessionDir, state: SessionState
) -> tuple[EngineView | None, Mapping[str, Live]]:
    """What the engine tells whoever watches; nothing that is older than `state`.

    It writes what is new as soon as somebody watches, so what it does not write anew
    still holds, unless the journal has gone on since.
    """
    from autoexp_tui.storage.live_sink import LiveReader, ViewerHeartbeat, is_of_now

    reader, heartbeat = LiveReader(session), ViewerHeartbeat(session)

    def of_now(detail: LiveDetail | None) -> bool:
        return detail is not None and is_of_now(detail, state.seq, state.epoch)

    before = detail = reader.read()
    if heartbeat.beat():
        deadline = time.monotonic() + SIGHT_SECONDS
        while (detail is before or not of_now(detail)) and time.monotonic() < deadline:
            time.sleep(0.05)
            detail = reader.read()
    heartbeat.close()
    return (detail.engine, detail.jobs) if detail and of_now(detail) else (None, {})
