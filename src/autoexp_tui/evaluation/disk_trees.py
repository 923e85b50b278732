"""The disk and git, as a search uses them: the adapter behind `tree.ports.Trees`; and
`run.lock.json` there, which tells people and programs who owns it."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.evaluation.requests import (
    EVAL_TIMEOUT,
    IMPLEMENTED,
    SWEPT,
    Implemented,
    Request,
    Swept,
    find_record,
    write_record,
)
from autoexp_tui.evaluation.steps import StepFailed, require_refs
from autoexp_tui.model.errors import (
    AutoexpError,
    EnvironmentFailed,
    UsageError,
    format_os_reason,
)
from autoexp_tui.model.states import Why, why
from autoexp_tui.model.wording import sentence
from autoexp_tui.storage.atomic import explaining, make_directory, write_atomic
from autoexp_tui.storage.json_codec import encode
from autoexp_tui.storage.removal import remove_below
from autoexp_tui.storage.trust import read_foreign
from autoexp_tui.tree.context_pack import (
    ContextPack,
    PriorIdea,
    build_context_pack,
    describe_outcome,
)
from autoexp_tui.tree.events import TreeOpened
from autoexp_tui.tree.gate import GateFacts, judge_gate, list_doubts
from autoexp_tui.tree.ideas import MOST_BYTES as MOST_IDEA
from autoexp_tui.tree.ideas import (
    SUFFIX,
    IdeaRefused,
    IdeaText,
    is_personal,
    parse_idea,
)
from autoexp_tui.tree.jobs import IDEAS, IMPLEMENT, PREPARE, SWEEP
from autoexp_tui.tree.options import TreeOptions, read_options
from autoexp_tui.tree.ports import (
    CollectRequest,
    GitWork,
    Packed,
    PackRequest,
    Proposed,
)
from autoexp_tui.tree.results_csv import FILE as RESULTS
from autoexp_tui.tree.results_csv import MOST_BYTES, Results, parse_results
from autoexp_tui.tree.scores import compare_results
from autoexp_tui.tree.state import (
    ROOT,
    Artifact,
    Evaluation,
    Idea,
    Judgement,
    Leftover,
    Node,
    Tree,
)
from autoexp_tui.tree.views import list_run, list_search, render_summary, write_manifest
from autoexp_tui.worktrees.checkouts import add_worktree
from autoexp_tui.worktrees.diffs import format_stat, list_changes
from autoexp_tui.worktrees.promotion import list_cleanup, promote, prune, retry_cleanup
from autoexp_tui.worktrees.readiness import check_repository, open_repository
from autoexp_tui.worktrees.tree_repository import (
    Git,
    Place,
    TreeRepository,
    list_refs,
    update_ref,
)

if TYPE_CHECKING:
    from autoexp_tui.engine.ports import Lease, Planner
    from autoexp_tui.model.specs import JobSpec, Plan

DEMO: Final = "demo"
"""As `tree.repository`: that of the example."""
DRY_RUN: Final = "dry_run"
"""The same, for a dry run."""
BUSY: Final = "it is busy, as it is scripted"
OWN: Final = frozenset({DEMO, DRY_RUN})
"""Repositories that a search makes for itself."""


@dataclass(frozen=True)
class DiskTrees:
    """Implements `tree.ports.Trees` for one session."""

    directory: Path
    """The search's own, below the session's."""
    state_dir: Path
    plan: Plan
    planner: Planner

    @cached_property
    def options(self) -> TreeOptions:
        return read_options(self.plan.tree)

    @cached_property
    def repository(self) -> TreeRepository:
        """Raises UsageError, EnvironmentFailed."""
        options = self.options
        where = Path(self.plan.cwd, options.repository or ".")
        if options.repository in OWN:
            from autoexp_tui.demo.packing.repository import find_repository

            where = find_repository(self.directory / DEMO, options.commit_epoch or 0)
        root = Path(options.worktree_root or self.directory)
        run = options.run or self.plan.name
        return open_repository(where, run, root, options.link_paths)

    def open(self, run: str, options: TreeOptions) -> tuple[TreeOpened, Sequence[str]]:
        repository, baseline = self.repository, None
        notes = check_repository(repository, self.state_dir)
        git = Git(repository)
        commit = git.resolve(options.root)
        if options.root_baseline_csv:
            path = Path(self.plan.cwd, options.root_baseline_csv)
            data = _read(path)
            parse_results(data, options.list_metrics(), str(path))
            baseline = self._keep(ROOT, data, path)
        place = Place("wt", ROOT[1:])
        update_ref(git, repository.get_ref(place), new=commit)
        root, sweep = add_worktree(git, place, commit), tuple[str, ...]()
        if options.evaluate.config_ref:
            from autoexp_tui.evaluation.config_sweep import plan_sweep

            sweep = plan_sweep(
                self.planner,
                self.plan,
                options.evaluate,
                top=repository.top,
                root=root,
                directory=self.directory,
            )
        opened = TreeOpened(
            root_commit=commit,
            directory=str(self.directory),
            python=sys.executable,
            baseline=baseline,
            sweep=sweep,
        )
        return opened, notes

    def _keep(self, name: str, data: bytes, source: Path) -> Artifact:
        """Copy results to where nobody writes any more, unless they are to stay."""
        digest, path = sha256(data).hexdigest(), str(source)
        if self.options.artifact_policy == "copy_to_run_root":
            path = f"artifacts/{name}.csv"
            make_directory(self.directory / "artifacts")
            write_atomic(self.directory / path, data)
        return Artifact(path=path, sha256=digest, source=str(source))

    def write_pack(self, request: PackRequest) -> Packed:
        options, evaluation = self.options, request.evaluation
        repository, pack = self.repository, ContextPack("", ())
        if evaluation is None:
            pack = self._build_context(request)
            home = self.directory / "calls" / request.node.ideas_job
            prompt, steps = pack.text.encode(), [IDEAS]
        else:
            home = self.directory / "eval" / evaluation.id
            idea = evaluation.idea
            prompt = _read(self._find_idea(idea), MOST_IDEA) if idea else b""
            steps = [IMPLEMENT, PREPARE if options.evaluate.config_ref else SWEEP]
        make_directory(home)
        write_atomic(home / "prompt_context.txt", prompt)
        made = self._build_request(repository, request, home, prompt)
        for step in steps:
            write_record(home / f"{step}.json", made)
        jobs: tuple[JobSpec, ...] = ()
        if evaluation is not None and options.evaluate.config_ref:
            from autoexp_tui.evaluation.config_sweep import build_sweep_jobs

            jobs = build_sweep_jobs(made, evaluation)
        return Packed(made.prompt_sha256, pack.files, jobs)

    def _find_idea(self, idea: Idea) -> Path:
        return self.directory / "node_ideas" / idea.id

    def _build_request(
        self,
        repository: TreeRepository,
        request: PackRequest,
        home: Path,
        prompt: bytes,
    ) -> Request:
        evaluation, node, options = request.evaluation, request.node, self.options
        idea = evaluation.idea if evaluation else None
        context = [self.directory / one for one in request.ideas_dirs]
        context += [Path(self.plan.cwd, one) for one in options.ideas.context_dirs]
        return Request(
            directory=str(self.directory),
            git_dir=str(repository.git_dir),
            top=str(repository.top),
            worktree_root=str(repository.root),
            run=repository.run,
            root_commit=request.root_commit,
            node=node.id,
            ideas_place=node.ideas_places[-1],
            commit=node.commit,
            evaluation=evaluation.id if evaluation else "",
            title=idea.title if idea else "",
            idea=str(self._find_idea(idea)) if idea else "",
            prompt=str(home / "prompt_context.txt"),
            prompt_sha256=sha256(prompt).hexdigest(),
            tree=self.plan.tree,
            agents=self.plan.agents,
            isolation=self.plan.isolation,
            context_dirs=tuple(map(str, context)),
            known_diffs=request.known_diffs,
            seconds=options.eval_timeout_seconds,
        )

    def _build_context(self, request: PackRequest) -> ContextPack:
        parent = (request.node, *request.ancestors)[:2][-1]
        git = Git(self.repository)
        changes = (
            list_changes(git, since, request.node.commit)
            for since in (request.root_commit, parent.commit)
        )
        all_, last = (format_stat(found) if found else () for found in changes)
        own = sorted(request.tried, key=attrgetter("idea_order"))
        ideas = [*self._list_foreign_ideas(), *map(self._describe_idea, own)]
        return build_context_pack(request, self.options, ideas, all_, last)

    def _list_foreign_ideas(self) -> Iterator[PriorIdea]:
        """Those of `ideas.context_dirs`, by their paths."""
        found = [
            (f"{place}/{path.name}", idea)
            for place in self.options.ideas.context_dirs
            for path, idea in _read_ideas(Path(self.plan.cwd, place), [])
        ]
        for path, idea in sorted(found):
            name, shown = path.rpartition("/")[2], idea.text
            yield PriorIdea(name, idea.title, shown, path, idea.sha256)

    def _describe_idea(self, one: Evaluation) -> PriorIdea:
        assert one.idea is not None, "it was tried"
        idea, path = one.idea, self._find_idea(one.idea)
        data = path.read_bytes()[:MOST_IDEA] if path.is_file() else b""
        text, where = data.decode("utf-8", "replace"), f"node_ideas/{idea.id}"
        told = describe_outcome(one)
        return PriorIdea(idea.id, idea.title, text, where, idea.sha256, idea.node, told)

    def read_ideas(self, node: Node) -> Proposed:
        problems, home = list[str](), self.directory / "node_ideas"
        found = (
            _build_idea(node.id, str(path.relative_to(home / node.id)), idea)
            for path, idea in _read_ideas(home / node.ideas_places[-1], problems)
            if not is_personal(path.name)
        )
        ideas, call = tuple(found), self.directory / "calls" / node.ideas_job
        told = find_record(Implemented, call / IMPLEMENTED) or Implemented()
        return Proposed(
            ideas=ideas,
            code=told.code,
            problem="; ".join(filter(None, [told.problem, *problems])),
            resume_at=told.resume_at,
        )

    def write_idea(self, node: str, text: str) -> Idea:
        data = text.encode()
        try:
            idea = parse_idea(data)
        except IdeaRefused as refused:
            raise UsageError(sentence(refused.why, 0.0)) from None
        home, name = self.directory / "node_ideas" / node, idea.name_personal()
        make_directory(home)
        write_atomic(home / name, data)
        return _build_idea(node, name, idea)

    def collect(self, request: CollectRequest) -> Judgement:
        one, home = request.evaluation, self.directory / "eval" / request.evaluation.id
        made = find_record(Implemented, home / IMPLEMENTED) or Implemented()
        swept = find_record(Swept, home / SWEPT) or Swept()
        base = Judgement(
            outcome="failed",
            why=_find_failure(request.ending, made, swept, self.options),
            commit=made.commit if one.idea else request.root.commit,
            diff_sha256=made.diff_sha256,
            files=made.files,
            resume_at=made.resume_at,
        )
        judged = base if base.why else self._judge(request, home, base, swept)
        write_record(home / "eval_result.json", judged)
        return judged

    def _judge(
        self, request: CollectRequest, home: Path, base: Judgement, swept: Swept
    ) -> Judgement:
        """What its results come to, as far as they can be read."""
        one, options = request.evaluation, self.options
        try:
            path, data = self._collect_rows(request, home, swept)
            results = self._parse(data, str(path))
        except StepFailed as failed:
            told = {"code": failed.code, "problem": failed.problem}
            return replace(base, why=why("candidate_failed", **told))
        except AutoexpError as error:
            problem = error.line.replace(f"{self.directory}/", "")
            return replace(base, why=why("not_collected", problem=problem))
        kept = self._keep(one.id, data, path)
        base = replace(
            base,
            outcome="scored",
            artifact=kept,
            counts=results.count_rows(
                options.gate.min_rows, options.sweep_config_limit
            ),
            measured_itself=swept.measured_itself,
        )
        if one.idea is None:
            return replace(base, primary=results.average(options.primary.name))
        parent, root = request.node.baseline, request.root.baseline
        assert parent is not None, "nothing is opened before its node is measured"
        assert root is not None, "nor before the root is"
        before, first = (
            self._parse(_read(self.directory / file.path), file.path)
            for file in (parent, root)
        )
        base = replace(
            base,
            parent=compare_results(before, results, options),
            root=compare_results(first, results, options),
            doubts=list_doubts(results, before, options),
        )
        files = {file.path: self.directory / file.path for file in (kept, parent)}
        facts = GateFacts(
            judged=base,
            baseline=parent,
            hashes={
                name: sha256(path.read_bytes()).hexdigest()
                for name, path in files.items()
                if path.is_file()
            },
            standard_error=request.standard_error,
        )
        return replace(base, gate=judge_gate(facts, options))

    def _collect_rows(
        self, request: CollectRequest, home: Path, swept: Swept
    ) -> tuple[Path, bytes]:
        """The results, as the sweep or the jobs of a plan left them; raises StepFailed,
        AutoexpError."""
        options, path = self.options, home / "output" / RESULTS
        if not options.evaluate.config_ref:
            data = _read(path)
            if sha256(data).hexdigest() != swept.sha256:
                problem = "it is not what it was when the sweep ended"
                raise EnvironmentFailed(problem, str(path))
            return path, data
        from autoexp_tui.evaluation.config_sweep import write_rows

        place = Place("cand", request.evaluation.id[1:])
        require_refs(Git(self.repository), place, swept.refs)
        data = write_rows(self.directory, request.evaluation, request.jobs, options)
        write_atomic(home / RESULTS, data)
        return home / RESULTS, data

    def _parse(self, data: bytes, where: str) -> Results:
        metrics, limit = self.options.list_metrics(), self.options.sweep_config_limit
        return parse_results(data, metrics, where, limit=limit)

    def work(self, work: GitWork) -> Sequence[Leftover]:
        options, git, left = self.options, Git(self.repository), list[Leftover]()
        refs = list_refs(git)
        for node in work.nodes:
            names = {"evaluation": node.evaluation[1:], "node": node.id[1:]}
            left += promote(git, commit=node.commit, **names)
        rejected = () if options.keep_rejected_worktrees else work.rejected
        for evaluation in rejected:
            ref = git.tree.get_ref(Place("cand", evaluation[1:]))
            left += self.prune(git, evaluation, refs.get(ref, ""))
        failed = () if options.keep_failed_artifacts else work.failed
        outputs = [path for one in failed for path in self._list_outputs(one)]
        outputs += [one.path for one in work.leftovers if one.kind == "dir"]
        left += self._remove_outputs(outputs)
        again = [one for one in work.leftovers if one.kind != "dir"]
        return [*left, *retry_cleanup(git, again)]

    def _list_outputs(self, evaluation: str) -> Iterator[str]:
        """What a candidate left, but for the records of its jobs, below the search's
        directory."""
        home = self.directory / "eval" / evaluation
        found = chain(home.glob("output*/*"), home.glob("output*/*/*"))
        for path in sorted(found):
            own = path.relative_to(home)
            if ".autoexp" not in own.parts and not (path / ".autoexp").is_dir():
                yield str(path.relative_to(self.directory))

    def _remove_outputs(self, paths: Sequence[str]) -> Iterator[Leftover]:
        for path in paths:
            try:
                remove_below(self.directory, path)
            except OSError as error:
                reason = format_os_reason(error)
                yield Leftover(path=path, kind="dir", reason=reason)

    def prune(self, git: Git, evaluation: str, commit: str) -> Sequence[Leftover]:
        """Remove a candidate's worktree and ref; what could not be removed."""
        return prune(git, Place("cand", evaluation[1:]), commit)

    def write_views(self, tree: Tree, engine: Mapping[str, Any]) -> None:
        search = list_search(tree, tree.options)
        run = list_run(tree, engine=engine, agents=self._list_agents(tree.options))
        manifest, summary = write_manifest(search, run), render_summary(search)
        write_atomic(self.directory / "manifest.json", manifest.encode())
        write_atomic(self.directory / "TREE_SUMMARY.md", summary.encode())

    def _list_agents(self, options: TreeOptions) -> dict[str, Any]:
        """What the agents of the search are, without what their environment holds."""
        made, ideas = options.implement, options.ideas.agent
        named = {*ideas, *made.agent, *made.review_agent} & self.plan.agents.keys()
        specs = {name: asdict(self.plan.agents[name]) for name in sorted(named)}
        shown = ("backend", "command", "model", "limits")
        return {name: {key: one[key] for key in shown} for name, one in specs.items()}


class DryTrees(DiskTrees):
    """The same for `autoexp-tree --dry-run`: all is real, and a cleanup fails where a
    step says so."""

    def prune(self, git: Git, evaluation: str, commit: str) -> Sequence[Leftover]:
        """The first try fails where it is scripted; the next one is a real one."""
        from autoexp_tui.demo.dry_run_steps import find_step

        idea = self.directory / "eval" / evaluation / "prompt_context.txt"
        step = find_step(idea.read_text("utf-8"))
        if step is None or not step.is_stuck:
            return super().prune(git, evaluation, commit)
        found = list_cleanup(git.tree, Place("cand", evaluation[1:]), commit)
        return [replace(one, reason=BUSY) for one in found]


def _find_failure(
    ending: Why | None, made: Implemented, swept: Swept, options: TreeOptions
) -> Why | None:
    """What a step says of itself is better than how its job ended; but a limit or a
    person's word stands."""
    if ending is not None and ending.code != "step_failed":
        return ending
    for told in (made, swept):
        if told.code == "repeated_change":
            return why(told.code, evaluation=told.problem)
        if told.code == EVAL_TIMEOUT:
            return why(told.code, seconds=options.eval_timeout_seconds or 0.0)
        if told.code:
            return why("candidate_failed", code=told.code, problem=told.problem)
    return ending


def _read(path: Path, most: int = MOST_BYTES) -> bytes:
    with explaining(path, "read it"):
        return read_foreign(path, most)


def _build_idea(node: str, file: str, idea: IdeaText) -> Idea:
    return Idea(node=node, file=file, title=idea.title, sha256=idea.sha256)


def _read_ideas(place: Path, problems: list[str]) -> Iterator[tuple[Path, IdeaText]]:
    """The ideas in a directory by the names of their files; what is none is told."""
    for path in sorted(place.glob(f"*{SUFFIX}")):
        try:
            yield path, parse_idea(read_foreign(path, MOST_IDEA))
        except IdeaRefused as refused:
            problems.append(f"{path.name}: {sentence(refused.why, 0.0, keys=False)}")
        except OSError as error:
            problems.append(f"{path.name}: {error.strerror or error}")


LOCK: Final = "run.lock.json"


@dataclass
class ShownLease:
    """Implements `engine.ports.Lease`: a lease that shows each heartbeat."""

    lease: Lease
    directory: Path
    """The search's; before it is made nothing is shown."""
    epoch: int = field(init=False)
    since: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.epoch = self.lease.epoch

    def heartbeat(self) -> bool:
        """See `engine.ports`. That it cannot be shown says nothing of the lease; the
        journal meets the same disk, and tells of it."""
        is_ours = self.lease.heartbeat()
        if is_ours and self.directory.is_dir():
            shown = {
                "pid": os.getpid(),
                "hostname": socket.gethostname(),
                "created_at": self.since,
                "last_heartbeat_at": time.time(),
                "epoch": self.epoch,
            }
            with suppress(EnvironmentFailed):
                write_atomic(self.directory / LOCK, encode(shown))
        return is_ours

    def release(self) -> None:
        """Its file goes with a clean end; a successor's stays."""
        if self.lease.heartbeat():
            with suppress(OSError):
                (self.directory / LOCK).unlink(missing_ok=True)
        self.lease.release()
