"""What an engine is built with: other work's files, the config's patience."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.cli.assemble import resume_session, start_session
from autoexp_tui.cli.options import Options
from autoexp_tui.engine.loop import Engine
from autoexp_tui.model.commands import Order, StopEngine
from autoexp_tui.model.specs import Plan
from autoexp_tui.storage.json_codec import decode_plan, encode_plan
from autoexp_tui.storage.lease import LeaseWatch
from autoexp_tui.storage.output_dir_lock import Owner, take_ownership
from autoexp_tui.storage.session_dir import SessionDir
from tests.model.builders import job, plan


def planned(root: Path) -> Plan:
    """One job, whose engine may be still for long."""
    made = plan(
        job("a", fingerprint="f1", output_dir=str(root / "out" / "a")),
        state_dir=str(root / "state"),
    )
    rules = replace(made.monitoring, lock_stale_seconds=1234.0)
    return decode_plan(encode_plan(replace(made, monitoring=rules)))


def stop(engine: Engine, command_id: str = "c") -> None:
    engine.order(Order(command_id=command_id, command=StopEngine()))
    engine.run()


@pytest.mark.parametrize(
    ("fingerprint", "force", "foreign"),
    [("f2", False, True), ("f1", False, False), ("f1", True, True)],
)
def test_what_other_work_left_does_not_count_and_nothing_by_force(
    tmp_path: Path, *, fingerprint: str, force: bool, foreign: bool
) -> None:
    left = Owner(session="old", state_dir="s", job="a", fingerprint=fingerprint)
    take_ownership(tmp_path / "out" / "a", left)
    options = Options(state_dir=str(tmp_path / "state"), force=force)
    engine = start_session(planned(tmp_path), lambda _: None, options)
    stop(engine)
    assert engine.state.jobs["a"].foreign_files is foreign


def test_an_engine_s_lease_and_its_successor_s_say_what_the_config_says(
    tmp_path: Path,
) -> None:
    stop(start_session(planned(tmp_path), lambda _: None, Options()), "first")
    (manifest,) = (tmp_path / "state").glob("*/plan.json")
    session = SessionDir(manifest.parent)
    stop(resume_session(session, lambda _: None, Options()), "second")
    holder = LeaseWatch(session).find_holder()
    assert holder is not None
    assert (holder.epoch, holder.stale_seconds) == (2, 1234.0)
