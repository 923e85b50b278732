from __future__ import annotations

from dataclasses import fields, replace

import pytest

from autoexp_tui.model import state
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.state import changed
from tests.model.builders import job, plan, run, started


def test_a_copy_equals_what_the_standard_library_makes() -> None:
    session = started(plan(job("a")))
    run(session, "a")
    record = session.jobs["a"]
    before = record.since
    assert changed(record, since=9.0) == replace(record, since=9.0)
    assert changed(record).attempts is record.attempts
    assert record.since == before


def test_a_field_that_is_none_is_refused() -> None:
    with pytest.raises(KeyError):
        changed(started(plan(job("a"))).jobs["a"], sinse=1.0)


@pytest.mark.parametrize("kind", [state.JobRecord, state.Attempt, state.Ask, Recorded])
def test_the_records_it_copies_check_nothing_when_they_are_made(kind: type) -> None:
    assert not hasattr(kind, "__post_init__")
    assert all(field.init for field in fields(kind))


def test_a_record_of_ones_own_is_changed_where_it_is() -> None:
    record = started(plan(job("a"))).jobs["a"]
    assert changed(record, in_place=True, since=9.0) is record
    assert record.since == 9.0
