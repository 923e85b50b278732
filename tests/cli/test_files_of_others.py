"""What an earlier session left counts, but not of other work, nor with --force."""

from __future__ import annotations

from pathlib import Path

from autoexp_tui.cli.assemble import start_session
from autoexp_tui.cli.options import Options
from autoexp_tui.conditions.kinds import FileExists
from autoexp_tui.model.commands import Order, StopEngine
from autoexp_tui.model.specs import Plan
from autoexp_tui.storage.output_dir_lock import Owner, take_ownership
from tests.model.builders import job, plan


def planned(root: Path) -> Plan:
    waits = FileExists(path=str(root / "out/a/x"), writer="a")
    return plan(
        job("a", fingerprint="f1", output_dir=str(root / "out" / "a")),
        job(
            "b",
            1,
            output_dir=str(root / "out" / "b"),
            depends_on=("a",),
            start_conditions=(waits,),
        ),
        state_dir=str(root / "state"),
    )


def foreign(root: Path, fingerprint: str, *, force: bool = False) -> bool:
    """Whether what lies in `a`'s directory counts as other work's."""
    left = Owner(session="old", state_dir=str(root), job="a", fingerprint=fingerprint)
    take_ownership(root / "out" / "a", left)
    options = Options(state_dir=str(root / "state"), force=force)
    engine = start_session(planned(root), lambda _snapshot: None, options)
    engine.order(Order(command_id="c", command=StopEngine()))
    engine.run()
    return engine.state.jobs["a"].foreign_files


def test_what_other_work_left_is_known_as_such(tmp_path: Path) -> None:
    assert foreign(tmp_path, "f2")


def test_what_the_same_work_left_counts(tmp_path: Path) -> None:
    assert not foreign(tmp_path, "f1")


def test_by_force_nothing_that_lies_there_counts(tmp_path: Path) -> None:
    assert foreign(tmp_path, "f1", force=True)
