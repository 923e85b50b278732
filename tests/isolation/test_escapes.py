"""Ways out of the fence, as an ordinary user: each is stopped where that is promised,
and each gets out where nothing is around it, so that being stopped means something."""

from __future__ import annotations

import pytest

from autoexp_tui.isolation.port import Isolation, Promise
from tests.isolation.fence import HELD, OUT, Fence, build_here, make_fence, start_victim

ESCAPES = {
    Promise.READS: "read_key read_hidden_data read_scorer read_through_symlink "
    "read_through_root_of_process list_home",
    Promise.WRITES: "write_home write_state write_other_worktree write_login "
    "write_through_symlink write_through_hard_link empty_file rename_out rename_in "
    "move_own_directory remove_upwards",
    Promise.MODES: "change_mode change_time",
    Promise.MEMORY: "trace_process read_environment_of_process read_memory_of_process",
    Promise.SIGNALS: "signal_process signal_everything",
    Promise.TCP: "connect_tcp",
    Promise.NETWORK: "ask_by_udp",
    Promise.SOCKETS: "connect_unix connect_abstract",
    Promise.PROCESSES: "leave_daemon",
    Promise.LIMITS: "write_large_file lift_limits open_many_files",
}
LIMITED = ("lift_limits", "open_many_files")
"""What these get without a fence is the machine's choice."""
FILES = "reads memory limits"
CLAIMS = {
    "landlock-1": FILES,
    "landlock-3": f"{FILES} writes",
    "landlock-4": f"{FILES} writes tcp",
    "landlock-6": f"{FILES} writes tcp signals",
    "bwrap-0": f"{FILES} writes signals modes network processes",
    "bwrap-6": " ".join(Promise),
}
"""By kind and ABI of Landlock, what is promised."""
NEWEST = ("landlock-6", "bwrap-6")
CLAIMED = [
    pytest.param(kind, escape, marks=() if kind in NEWEST else pytest.mark.slow)
    for kind, promises in CLAIMS.items()
    for promise in promises.split()
    for escape in ESCAPES[Promise(promise)].split()
]


def attempt(fence: Fence, isolation: Isolation | None, escape: str) -> int:
    """The status of an escape; None: nothing is around it."""
    with start_victim(fence) as (pid, port):
        tool = str(fence.base / "tool/escapes.py")
        words = (fence.python.path, tool, escape, str(fence.base), str(pid), str(port))
        run = fence.run(
            isolation.wrap(words, fence.make_profile()) if isolation else words,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        )
    assert run.returncode in (OUT, HELD), run.stdout + run.stderr
    if escape == "leave_daemon":
        return OUT if fence.end_daemon() else HELD
    return run.returncode


def test_every_promise_has_an_escape_that_would_break_it() -> None:
    assert set(ESCAPES) == set(Promise)


@pytest.mark.parametrize("kind", CLAIMS)
def test_a_kind_claims_what_its_escapes_were_tried_for(kind: str) -> None:
    with make_fence() as fence:
        assert build_here(fence, kind).promises == {*map(Promise, CLAIMS[kind].split())}


@pytest.mark.parametrize(
    "escape", [e for es in ESCAPES.values() for e in es.split() if e not in LIMITED]
)
def test_without_a_fence_it_gets_out(escape: str) -> None:
    with make_fence() as fence:
        assert attempt(fence, None, escape) == OUT


@pytest.mark.parametrize(("kind", "escape"), CLAIMED)
def test_where_it_is_promised_it_is_stopped(kind: str, escape: str) -> None:
    with make_fence() as fence:
        assert attempt(fence, build_here(fence, kind), escape) == HELD
