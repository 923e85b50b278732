"""Implements an idea: `python -m autoexp_tui.evaluation.implement REQUEST`.

The agent edits a fresh worktree of the node's commit; tests run; a reviewer may send it
back with the tests' output. What is left becomes one commit of ours, or is refused.
"""

from __future__ import annotations

import fcntl
import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from autoexp_tui.agents.call import Answer, hash_bytes
from autoexp_tui.agents.isolated import Caller
from autoexp_tui.evaluation.requests import IMPLEMENTED, PATCH, Implemented, Request
from autoexp_tui.evaluation.steps import (
    Fence,
    StepFailed,
    exit_process,
    list_kept_refs,
    make_fence,
    require_refs,
    require_success,
    run_step,
)
from autoexp_tui.model.agents import Outcome
from autoexp_tui.storage.atomic import explaining, make_directory, write_atomic
from autoexp_tui.worktrees.candidates import (
    CandidateRefused,
    CommitRecord,
    commit_candidate,
)
from autoexp_tui.worktrees.checkouts import restore_worktree
from autoexp_tui.worktrees.diffs import Diff, read_diff
from autoexp_tui.worktrees.tree_repository import Git, list_refs, update_ref

REVIEW: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["approve", "comments"],
    "properties": {"approve": {"type": "boolean"}, "comments": {"type": "string"}},
}
_MINUTE: Final = 60.0
_STEP: Final = 0.5


def implement(request: Request) -> Implemented:
    """The commit of an idea; raises StepFailed, AutoexpError."""
    fence, git = make_fence(request, "implement"), Git(request.repository)
    worktree = restore_worktree(git, request.place, request.commit)
    prompt, refs = Path(request.prompt).read_bytes(), list_kept_refs(git, request.place)
    options, told = request.options.implement, b""
    for number in range(options.review_rounds + 1):
        name = f"implement_{number}" if number else "implement"
        call_agents(fence, options.agent, name, prompt + told)
        problem = _test(fence, worktree, number)
        is_last = number == options.review_rounds
        review = None if is_last or problem else _review(fence, worktree, number + 1)
        if problem and is_last:
            raise StepFailed("tests_failed", problem)
        if not problem and not review:
            break
        told = f"\n\n# Review {number + 1}\n\n{problem or review}\n".encode()
    git = Git(request.repository)
    require_refs(git, request.place, refs)
    return replace(_commit(request, git), isolation=fence.isolation.summarize())


def call_agents(
    fence: Fence,
    chain: Sequence[str],
    name: str,
    prompt: bytes,
    *,
    schema: Mapping[str, Any] | None = None,
    answer_file: str = "",
    cwd: Path | None = None,
) -> Answer:
    """Have the agents of a role try; the directory of their calls lies in the
    experiment's. Raises StepFailed."""
    request = fence.request
    if unknown := [one for one in chain if one not in request.agents]:
        raise StepFailed("no_agent", f"there is no agents.{unknown[0]}")
    home = request.experiment if request.evaluation else fence.private
    directory = home / "calls" / name
    make_directory(directory)
    write_atomic(directory / "prompt.md", prompt)
    answers = _make_caller(fence).call_chain(
        chain,
        directory,
        role=name.partition("_")[0],
        prompt=str(directory / "prompt.md"),
        prompt_sha256=hash_bytes(prompt),
        cwd=str(cwd or request.repository.get_worktree(request.place)),
        answer_file=answer_file,
        schema=schema,
    )
    if not answers:
        raise StepFailed("no_agent", f"no agent is named for {name}")
    last = answers[-1]
    if last.outcome is not Outcome.OK:
        told = (one.resume_at for one in answers if one.resume_at is not None)
        problem, code = f"the agent for {name}: {last.why}", last.outcome.value
        raise StepFailed(f"agent_{code}", problem, min(told, default=None))
    return last


def _make_caller(fence: Fence) -> Caller:
    request = fence.request

    def wait() -> None:
        if most := request.options.llm_rate_limit:
            turns = Path(request.directory, "calls", "turns.json")
            wait_for_turn(turns, most, fence.deadline)

    return Caller(
        agents=request.agents,
        isolation=fence.isolation,
        readable=request.list_readable(),
        deadline=fence.deadline,
        wait=wait,
    )


def wait_for_turn(path: Path, limit: int, deadline: float) -> None:
    """Wait until a call may begin, and count it: `limit` of them a minute at most, of
    whichever process of the search. `path`: the times of the last ones, which they
    lock. `deadline`: monotonic; then it begins all the same, and its own limit of time
    ends it. Raises EnvironmentFailed."""
    while (seconds := _take_turn(path, limit)) > 0 and time.monotonic() < deadline:
        time.sleep(min(seconds, _STEP))


def _take_turn(path: Path, limit: int) -> float:
    """0: it was taken; else how many seconds there are until one is free."""
    make_directory(path.parent)
    with explaining(path, "count the calls of agents"), path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        times, now = list[float](), time.time()
        with suppress(ValueError, TypeError):  # cut off by a kill
            times = [float(one) for one in json.loads(file.read())]
        times = sorted(one for one in times if now - _MINUTE < one <= now)
        if len(times) >= limit:
            return times[-limit] + _MINUTE - now
        file.truncate(0)
        file.write(json.dumps([*times, now]).encode())
    return 0.0


def _test(fence: Fence, worktree: Path, number: int) -> str:
    """Run the tests; why they failed, empty when they passed or there are none."""
    command = fence.request.options.implement.test_command
    if not command:
        return ""
    scraps = fence.private / "test"
    log = fence.request.experiment / f"test_{number}.log"
    end = fence.run(command, worktree, scraps, log)
    try:
        require_success(end, "tests_failed", "the tests")
    except StepFailed as failed:
        return failed.problem
    return ""


def _review(fence: Fence, worktree: Path, number: int) -> str:
    """What the reviewer wants changed; empty: nothing."""
    request, agents = fence.request, fence.request.options.implement.review_agent
    if not agents:
        return ""
    idea = Path(request.idea).read_bytes()
    prompt = b"Review the change in this directory against the idea.\n\n" + idea
    answer = call_agents(fence, agents, f"review_{number}", prompt, schema=REVIEW)
    said = json.loads(answer.text)
    comments = str(said["comments"]).encode("utf-8", "replace").decode()
    text = f"# Review {number}\n\n{comments}\n"
    write_atomic(request.experiment / f"review_round_{number}.md", text.encode())
    return "" if said["approve"] else comments or "it was not approved"


def _commit(request: Request, git: Git) -> Implemented:
    """One commit of what is in the worktree, its ref, its patch for people."""
    options = request.options
    record = CommitRecord(
        parent=request.commit,
        message=f"{request.title}\n\n{request.run} {request.evaluation}\n",
        epoch=options.commit_epoch or _find_epoch(request),
    )
    try:
        made = commit_candidate(git, request.place, record, options.implement)
    except CandidateRefused as refused:
        raise StepFailed("refused", refused.reasons) from None
    _write_patch(request, PATCH, made.diff)
    if request.commit != request.root_commit:
        since_root = read_diff(git, request.root_commit, made.commit)
        _write_patch(request, "since_root.patch", since_root)
    digest = made.diff.hash()
    if known := request.known_diffs.get(digest):
        raise StepFailed("repeated_change", known)
    _set_ref(request, git, made.commit)
    files = len(made.diff.changes)
    return Implemented(commit=made.commit, diff_sha256=digest, files=files)


def _write_patch(request: Request, name: str, diff: Diff) -> None:
    write_atomic(request.home / name, diff.cut_patch().encode())


def _find_epoch(request: Request) -> int:
    """The date of the commit: once chosen it stays, so that a second attempt makes the
    same commit."""
    path = request.home / "epoch"
    if not path.exists():
        write_atomic(path, str(int(time.time())).encode())
    return int(path.read_text())


def _set_ref(request: Request, git: Git, commit: str) -> None:
    """Of an earlier attempt it may hold another commit, which is ours as well; one that
    we did not make stays, and that is an error."""
    path, ref = request.home / "commits", git.tree.get_ref(request.place)
    ours = path.read_text().split() if path.exists() else []
    write_atomic(path, "\n".join([*ours, commit]).encode())
    found = list_refs(git, ref).get(ref, "") if ours else ""
    old = found if found in ours else ""
    update_ref(git, ref, new=commit, old=old)


if __name__ == "__main__":
    exit_process(run_step(sys.argv[1:], IMPLEMENTED, implement))
