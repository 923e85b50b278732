"""Packages whose kinds are broken, clash or are gone harm nothing but themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from autoexp_tui.config.specs import parse_condition
from autoexp_tui.events.events import EffectOrdered
from autoexp_tui.extend import Condition
from autoexp_tui.model import kinds
from autoexp_tui.model.errors import AutoexpError, JournalDamaged
from autoexp_tui.model.event import Recorded
from autoexp_tui.planning.ports import SpecRefused
from autoexp_tui.storage.journal import decode_record, encode_record
from autoexp_tui.storage.json_codec import build_validator, decode_plan, encode_plan
from tests.extending.conftest import ENTRY_POINTS
from tests.extending.disk_free import DiskFree
from tests.extending.write_tag import WriteTag
from tests.model.builders import job, plan

HERE = "tests.extending.test_broken_packages"
BROKEN = (
    ("condition.bad", "nope:X"),
    ("condition.absent", "tests.extending.disk_free:Absent"),
    ("condition.alien", f"{HERE}:Alien"),
    ("condition.renamed", "tests.extending.disk_free:DiskFree"),
    ("condition.odd", f"{HERE}:Odd"), ("effect.bad", "nope:X"), ("event.Bad", "nope:X"),
    ("condition.rival", "one.a:A"), ("condition.rival", "two.b:B"),
)  # fmt: skip


class Alien:
    """No condition."""


class Opaque:
    """What no JSON is read as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd(Condition):
    kind: Literal["odd"] = "odd"
    value: Opaque


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "list_installed", lambda: (*ENTRY_POINTS, *BROKEN))


WAITS = DiskFree(report="/report")
PLAN = plan(job("a", start_conditions=(WAITS,)))
ORDERED = EffectOrdered(effect_id="e", effect=WriteTag(job="a", tag="t"))
RECORDED = Recorded(seq=1, epoch=1, t=1.0, event_id="e", event=ORDERED)


@pytest.mark.usefixtures("broken")
def test_broken_packages_leave_plans_journals_and_configs_readable() -> None:
    assert decode_plan(encode_plan(PLAN)) == PLAN
    assert decode_record(encode_record(RECORDED)).event == ORDERED
    value = {"class_name": "DiskFreeCondition", "report": "/report"}
    assert parse_condition(value, "w") == WAITS
    for typo, meant in (("FileExist", "FileExists"), ("DiskFre", "DiskFree")):
        with pytest.raises(SpecRefused) as refused:
            parse_condition({"class_name": typo}, "w")
        assert meant in str(refused.value.problems)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(("name", "problem"), [
    ("bad", "ModuleNotFoundError: No module named 'nope'"),
    ("absent", "AttributeError"), ("alien", "no"),
    ("renamed", "is stored as 'disk_free', not as 'renamed'"),
    ("rival", "one.a:A and two.b:B bring the same name: uninstall one"),
])  # fmt: skip
def test_a_broken_kind_that_is_asked_for_is_named(name: str, problem: str) -> None:
    assert Condition.kinds.find(name) is None
    with pytest.raises(AutoexpError) as refused:
        Condition.kinds[name]
    said = str(refused.value)
    assert f"condition.{name} = " in said
    assert problem in said
    assert "uninstall the package" in said


def test_what_a_missing_package_wrote_is_not_called_damaged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written, line = encode_plan(PLAN), encode_record(RECORDED)
    monkeypatch.setattr(kinds, "list_installed", lambda: ())
    build_validator.cache_clear()
    for read in (lambda: decode_plan(written), lambda: decode_record(line)):
        with pytest.raises(JournalDamaged) as refused:
            read()
        assert refused.value.newer
        assert "a package that is not installed here" in refused.value.hint


def test_a_name_that_is_installed_is_taken_and_a_broken_kind_of_ours_raises() -> None:
    broken: kinds.KindTable[Any] = kinds.KindTable("condition", {"model.kinds": "Nope"})
    with pytest.raises(AttributeError):
        broken.find("Nope")
    with pytest.raises(KeyError):
        broken["unknown"]
    table: kinds.KindTable[Any] = kinds.KindTable("condition", {})
    with pytest.raises(ValueError, match="disk_free is the name of tests"):
        table.add("disk_free", "elsewhere:DiskFree")
    assert table.find("disk_free") is None  # of another table
    table.add("mine", "elsewhere:Mine")
    assert "mine" in table
