"""The kinds of this package, as if it were installed with entry points of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from autoexp_tui.config import spec_reader
from autoexp_tui.model import kinds
from autoexp_tui.model.specs import Plan
from autoexp_tui.storage.json_codec import build_validator
from tests.engine.bench import Bench
from tests.support.fake_script import RunScript

HERE: Final = "tests.extending"
ENTRY_POINTS: Final = (
    ("condition.disk_free", f"{HERE}.disk_free:DiskFree"),
    ("action.tag_run", f"{HERE}.tag_run:TagRun"),
    ("effect.write_tag", f"{HERE}.write_tag:WriteTag"),
    ("event.RunTagged", f"{HERE}.run_tagged:RunTagged"),
    ("event.GoalSet", f"{HERE}.tally:GoalSet"),
    ("event.JobTallied", f"{HERE}.tally:JobTallied"),
    ("command.set_goal", f"{HERE}.tally:SetGoal"),
    ("policy.tally", f"{HERE}.tally:TallyPolicy"),
)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No other test knows these kinds; what was built for a table is built anew."""
    caches = (build_validator, spec_reader.read_spec)
    monkeypatch.setattr(kinds, "list_installed", lambda: ENTRY_POINTS)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def bench(of: Plan) -> Bench:
    """A real engine over the fake executor; each job runs a second."""
    return Bench(of, {spec.name: [[RunScript(seconds=1.0)]] for spec in of.jobs})
