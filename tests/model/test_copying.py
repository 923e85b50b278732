from __future__ import annotations

from dataclasses import fields, replace

import pytest

from autoexp_tui.model import state
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.state import changed
from tests.model.builders import job, plan, run, started


def test_a_copy_is_the_standard_library_s_and_one_s_own_is_changed_where_it_is() -> (
    None
):
    session = started(plan(job("a")))
    run(session, "a")
    record = session.jobs["a"]
    before = record.since
    assert changed(record, since=9.0) == replace(record, since=9.0)
    assert changed(record).attempts is record.attempts
    assert record.since == before
    assert changed(record, in_place=True, since=9.0) is record
    assert record.since == 9.0
    with pytest.raises(KeyError):
        changed(record, sinse=1.0)


@pytest.mark.parametrize("kind", [state.JobRecord, state.Attempt, state.Ask, Recorded])
def test_the_records_it_copies_check_nothing_when_they_are_made(kind: type) -> None:
    assert not hasattr(kind, "__post_init__")
    assert all(field.init for field in fields(kind))
