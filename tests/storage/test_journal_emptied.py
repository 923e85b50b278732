"""A session whose journal was emptied is not taken for one that never began."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoexp_tui.model.errors import AutoexpError, JournalDamaged
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.session_removal import require_removable
from tests.storage.whole_session import WholeSession


@pytest.fixture
def emptied(tmp_path: Path) -> WholeSession:
    made = WholeSession(tmp_path / "k7f2")
    made.submit()
    made.begin()
    made.leave()
    for part in made.session.path.glob("journal.*.jsonl"):
        part.write_bytes(b"")
    return made


def test_it_is_refused_with_the_job_that_ran(emptied: WholeSession) -> None:
    with pytest.raises(JournalDamaged, match="jobs have run: a"):
        load_state(emptied.session)


def test_it_is_not_removed_while_its_jobs_may_run(emptied: WholeSession) -> None:
    with pytest.raises(AutoexpError):
        require_removable(emptied.session)


def test_a_session_in_which_nothing_ran_has_merely_not_begun(tmp_path: Path) -> None:
    made = WholeSession(tmp_path / "k7f2")
    made.leave()
    for part in made.session.path.glob("journal.*.jsonl"):
        part.write_bytes(b"")
    assert load_state(made.session).state.plan is None
