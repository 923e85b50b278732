"""A made-up week on disk: a session's directory as engines would have left it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from autoexp_tui.events import events
from autoexp_tui.model.event import Recorded
from autoexp_tui.storage.journal import encode_record
from autoexp_tui.storage.session_dir import SessionDir
from tests.support.campaigns import plan_of, planned
from tests.support.week import Week, week


def write_week(state_dir: Path, **wanted: Any) -> tuple[SessionDir, Week]:
    """A week as a session of `state_dir`; `wanted` as `week.week` takes it."""
    plan = plan_of(planned(wanted.pop("jobs", 1000)))
    session = SessionDir(state_dir / wanted.setdefault("session", "w7k2"))
    session.make()
    told = week(plan=plan, sha=session.save_plan(plan), **wanted)
    write_parts(session, told.records)
    return session, told


def write_parts(session: SessionDir, records: Sequence[Recorded]) -> None:
    """The records as parts of a journal, each sealing the one before."""
    length = 0
    for epoch, members in groupby(records, key=lambda record: record.epoch):
        path = session.get_part(epoch)
        with path.open("wb") as file:
            for record in members:
                file.write(encode_record(_sealing(record, length)))
            length = file.tell()


def _sealing(record: Recorded, length: int) -> Recorded:
    event = record.event
    if isinstance(event, events.EngineStarted) and event.sealed_part:
        return replace(record, event=replace(event, sealed_bytes=length))
    return record
