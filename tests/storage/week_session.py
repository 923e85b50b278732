"""A made-up week on disk: a session's directory as engines would have left it."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from autoexp_tui.events import events
from autoexp_tui.storage.journal import encode_record
from autoexp_tui.storage.session_dir import SessionDir
from tests.support.campaigns import plan_of, planned
from tests.support.week import SESSION, Week, week


def write_week(state_dir: Path, **wanted: Any) -> tuple[SessionDir, Week]:
    """A week as a session of `state_dir`; `wanted` as `week.week` takes it."""
    plan = plan_of(planned(wanted.pop("jobs", 1000)))
    session = SessionDir(state_dir / SESSION)
    session.make()
    told = week(plan=plan, sha=session.save_plan(plan), **wanted)
    length = 0  # of the part before: each seals it
    for epoch, members in groupby(told.records, key=lambda record: record.epoch):
        with session.get_part(epoch).open("wb") as file:
            for record in members:
                event = record.event
                if isinstance(event, events.EngineStarted) and event.sealed_part:
                    event = replace(event, sealed_bytes=length)
                file.write(encode_record(replace(record, event=event)))
            length = file.tell()
    return session, told
