"""Calls an agent for research: `python -m autoexp_tui.consultation.call REQUEST`.

It works in a worktree of its own, or in an empty directory. What it leaves there as a
change of code becomes one commit of ours on no branch, or is refused; the answer stands
all the same. Exits with 0 when the outcome is ok.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from autoexp_tui.agents.call import FILES as ANSWERS
from autoexp_tui.agents.call import Answer, load_answer
from autoexp_tui.agents.isolated import Caller
from autoexp_tui.agents.runner import restore_answer
from autoexp_tui.consultation.call_refs import AUTHOR, EMAIL, name_change
from autoexp_tui.consultation.requests import (
    CALLED,
    PATCH,
    PROMPT,
    Before,
    Called,
    CallRequest,
)
from autoexp_tui.evaluation.requests import find_record, load_record, write_record
from autoexp_tui.isolation.kinds import choose_isolation
from autoexp_tui.isolation.port import FILES, Isolation
from autoexp_tui.model.agents import Outcome, Usage
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.research.jobs import REQUEST
from autoexp_tui.research.state import CodeChange
from autoexp_tui.storage.atomic import explaining, make_directory, write_atomic
from autoexp_tui.storage.removal import remove_below
from autoexp_tui.storage.repository import Repository
from autoexp_tui.storage.trust import MOST_BYTES, read_checked
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import join_some
from autoexp_tui.worktrees.candidates import (
    CandidateRefused,
    CommitRecord,
    commit_candidate,
)
from autoexp_tui.worktrees.checkouts import remove_worktree, restore_worktree
from autoexp_tui.worktrees.diffs import format_stat
from autoexp_tui.worktrees.tree_repository import Git, list_refs, update_ref

ROLE: Final = "research"
"""Whose changes of code are taken."""
_WORK: Final = "work"
_BEFORE: Final = "before.json"
_STATUS_BYTES: Final = 16 << 20
_SECONDS: Final = 120.0
_SHOWN: Final = 5


def make_call(request: CallRequest) -> Called:
    """Raises AutoexpError."""
    isolation = choose_isolation(request.isolation)
    caller = Caller(
        agents=request.agents,
        isolation=isolation,
        readable=(*request.repository.list_links(), *map(Path, request.readable)),
    )
    cwd = _prepare_directory(request)
    _note_before(request, isolation)
    caller.call_chain(
        request.chain,
        request.home,
        role=request.role,
        prompt=str(request.home / PROMPT),
        prompt_sha256=request.prompt_sha256,
        cwd=str(cwd),
        answer_file=request.answer_file,
        schema=request.schema,
    )
    return conclude(request)


def _prepare_directory(request: CallRequest) -> Path:
    """Where the agent works: nothing of an earlier attempt is there."""
    if request.code_base:
        git = Git(request.repository)
        return restore_worktree(git, request.place, request.code_base)
    _remove_work(request)
    make_directory(request.home / _WORK)
    return request.home / _WORK


def _remove_work(request: CallRequest) -> None:
    with explaining(request.home / _WORK, "remove what a call left"):
        remove_below(request.home, _WORK)


def conclude(request: CallRequest) -> Called:
    """What came of a call, by what it left: its agents, and their processes, have
    ended. Raises AutoexpError."""
    answers = [*_load_answers(request.home)]
    if not answers:
        problem = "no agent was called"
        return Called(outcome=Outcome.AGENT_ERROR, problem=problem, is_sent=False)
    last, before = answers[-1], find_record(Before, request.home / _BEFORE)
    told = [one.resume_at for one in answers if one.resume_at is not None]
    usages = [one.usage for one in answers if one.usage is not None]
    costs = [one.cost for one in answers if one.cost is not None]
    made = Called(
        outcome=last.outcome,
        problem=last.why,
        usage=sum(usages, Usage()) if usages else None,
        cost=sum(costs) if costs else None,
        resume_at=None if last.outcome is Outcome.OK else min(told, default=None),
        isolation=before.isolation if before else "",
        is_sent=any(one.exit_code is not None for one in answers),
    )
    if last.outcome is Outcome.OK and last.files:
        [file] = last.files
        answer = f"{ANSWERS}/{file.name}"
        made = replace(made, answer=answer, sha256=file.sha256)
        if problem := _find_tampering(request, before.files if before else {}):
            made = replace(made, outcome=Outcome.BAD_OUTPUT, problem=problem)
        else:
            made = _take_code(request, made)
    return made


def _load_answers(home: Path) -> Iterator[Answer]:
    """Of all agents that were called, in order."""
    earlier = sorted(home.glob("earlier.*"), key=lambda one: int(one.suffix[1:]))
    for place in (*earlier, home):
        answer = load_answer(place)
        if answer is None and place == home:
            answer = restore_answer(place)
        if answer is not None:
            yield answer


def _find_tampering(request: CallRequest, before: Mapping[str, str]) -> str:
    """What an agent that nothing fenced in did outside its directory, as far as that
    can be seen; empty: nothing."""
    now = _hash_guarded(request) if before else {}
    names = sorted(before.keys() | now.keys())
    changed = [one for one in names if before.get(one) != now.get(one)]
    if not changed:
        return ""
    shown = join_some([clean_line(one, 200) for one in changed], _SHOWN)
    return (
        "while it ran without isolation it, or somebody else, changed what lies "
        f"outside its directory: {shown}"
    )


def _note_before(request: CallRequest, isolation: Isolation) -> None:
    files = {} if isolation.promises >= FILES else _hash_guarded(request)
    noted = Before(isolation=isolation.summarize(), files=files)
    write_record(request.home / _BEFORE, noted)


def _hash_guarded(request: CallRequest) -> dict[str, str]:
    """The sha256 of what the agent must not change: its request, its prompt, what is
    named, and tracked files of the user's checkout that are not as they were
    committed."""
    own = (request.home / REQUEST, request.home / PROMPT)
    paths, found = [*own, *map(Path, request.guarded)], dict[str, str]()
    if request.top:
        words = ("status", "--porcelain=v1", "-z", "-uno", "--no-renames")
        git = Repository(Path(request.top))
        head, _ = git.read("rev-parse", "HEAD", most=_STATUS_BYTES)
        found[f"HEAD of {request.top}"] = head.decode()
        listed, _ = git.run(
            (*words, "--ignore-submodules=all"), most=_STATUS_BYTES, seconds=_SECONDS
        )
        names = (os.fsdecode(line[3:]) for line in listed.split(b"\0")[:-1])
        paths += [Path(request.top, name) for name in names]
    return found | {str(path): _hash_file(path) for path in paths}


def _hash_file(path: Path) -> str:
    """Of something else than a readable file: why it is none."""
    try:
        return sha256(read_checked(path, "anybody", MOST_BYTES)).hexdigest()
    except OSError as error:
        return str(error.strerror)


def _take_code(request: CallRequest, made: Called) -> Called:
    """With the change of code that the agent left, or why that is refused."""
    if not request.code_base or request.role != ROLE:
        return made
    try:
        return replace(made, code=_commit(request))
    except CandidateRefused as refused:
        if [one.code for one in refused.refusals] == ["empty"]:
            return made
        reason = refused.reasons
    except AutoexpError as error:
        reason = error.line
    return replace(made, code_refused=reason)


def _commit(request: CallRequest) -> CodeChange:
    """One commit of what is in the worktree, its ref, its patch for people."""
    base = request.code_base
    git = Git(request.repository)  # anew: foreign code has run
    record = CommitRecord(
        parent=base,
        message=f"{name_change(request.session, request.consultation)}\n",
        epoch=request.epoch,
        name=AUTHOR,
        email=EMAIL,
    )
    made = commit_candidate(git, request.place, record, request.options)
    write_atomic(request.home / PATCH, made.diff.cut_patch().encode())
    ref = git.tree.get_ref(request.place)
    old = list_refs(git, ref).get(ref, "")  # of an earlier try of the call
    update_ref(git, ref, new=made.commit, old=old)
    return CodeChange(
        commit=made.commit,
        base=base,
        sha256=made.diff.hash(),
        files=len(made.diff.changes),
        diffstat="\n".join(format_stat(made.diff.changes)[:-1]),  # not the sums
    )


def clean_up(request: CallRequest, made: Called) -> None:
    """Remove where the agent worked, once what came of the call is recorded; what was
    refused stays for people. Raises EnvironmentFailed."""
    if not request.code_base:
        _remove_work(request)
    elif not made.code_refused:
        remove_worktree(request.repository, request.place)


def main(arguments: Sequence[str]) -> int:
    path = Path(*arguments)
    path.with_name(CALLED).unlink(missing_ok=True)
    request, status = load_record(CallRequest, path), 0
    try:
        made = make_call(request)
    except AutoexpError as error:
        made, status = conclude(request), error.exit_code
        made = replace(made, outcome=Outcome.AGENT_ERROR, problem=error.line)
    write_record(request.home / CALLED, made)
    tokens = made.usage or Usage()
    sys.stdout.write(
        f"{made.outcome}: {tokens.input_tokens} tokens in, {tokens.output_tokens} out\n"
    )
    if made.problem:
        sys.stdout.write(f"{made.problem}\n")
    if made.code_refused:
        sys.stdout.write(f"its change of code is refused: {made.code_refused}\n")
    return status or int(made.outcome is not Outcome.OK)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
