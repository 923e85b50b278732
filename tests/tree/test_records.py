"""Records of a search as a journal is read."""

from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints

import pytest

from autoexp_tui.model.event import Event
from autoexp_tui.tree import events, state

RECORDS = [
    one
    for one in vars(state).values()
    if dataclasses.is_dataclass(one) and one.__module__ == state.__name__
]


@pytest.mark.parametrize("record", [one for one in RECORDS if one is not state.Tree])
def test_the_fields_of_a_record_are_known_where_it_stands(record: Any) -> None:
    assert get_type_hints(record)


def test_a_new_process_finds_every_event_of_a_search_by_its_name() -> None:
    told = {
        name
        for name, one in vars(events).items()
        if isinstance(one, type) and one.__module__ == events.__name__
        if not name.startswith("_")
    }
    assert told <= set(Event.kinds)
