"""The disk and git, as a search uses them: the adapter behind `tree.ports.Trees`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.evaluation.requests import (
    IMPLEMENTED,
    RESULTS,
    SWEPT,
    Implemented,
    Request,
    Swept,
    find_record,
    load_record,
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
from autoexp_tui.storage.removal import remove_below
from autoexp_tui.storage.trust import read_foreign
from autoexp_tui.text.spelling import format_metric
from autoexp_tui.tree.context_pack import (
    ChangedFile,
    ContextFacts,
    PriorIdea,
    SiblingRefusal,
    build_context_pack,
)
from autoexp_tui.tree.gate import CheckedFile, GateFacts, judge_gate, list_doubts
from autoexp_tui.tree.ideas import MOST_BYTES as MOST_IDEA
from autoexp_tui.tree.ideas import SUFFIX, IdeaRefused, is_personal, parse_idea
from autoexp_tui.tree.ideas import Idea as ParsedIdea
from autoexp_tui.tree.jobs import IDEAS, IMPLEMENT, PREPARE, SWEEP, name_idea_job
from autoexp_tui.tree.options import TreeOptions
from autoexp_tui.tree.ports import (
    CollectRequest,
    GitWork,
    Opened,
    Packed,
    PackRequest,
    Proposed,
)
from autoexp_tui.tree.results_csv import MOST_BYTES, Results, parse_results
from autoexp_tui.tree.scores import Comparison, compare_results
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
from autoexp_tui.worktrees.diffs import format_stat, list_top_files, read_changes
from autoexp_tui.worktrees.promotion import promote, prune, retry_cleanup
from autoexp_tui.worktrees.readiness import check_repository, open_repository
from autoexp_tui.worktrees.refs import list_refs, update_ref
from autoexp_tui.worktrees.tree_repository import Git, Place, TreeRepository

if TYPE_CHECKING:
    from autoexp_tui.engine.ports import Planner
    from autoexp_tui.model.specs import JobSpec, Plan

_TOP_FILES: Final = 20
DEMO: Final = "demo"
"""As `tree.repository`: that of the example."""
DRY_RUN: Final = "dry_run"
"""The same, for a dry run."""
OWN: Final = frozenset({DEMO, DRY_RUN})
"""Repositories that a search makes for itself."""


@dataclass(frozen=True, slots=True)
class DiskTrees:
    """Implements `tree.ports.Trees` for one session."""

    directory: Path
    """The search's own, below the session's."""
    state_dir: Path
    plan: Plan
    """The search's."""
    planner: Planner
    _opened: dict[str, TreeRepository] = field(default_factory=dict)
    """By run: where a repository lies does not change."""

    def open(self, run: str, options: TreeOptions) -> Opened:
        """See `tree.ports`."""
        repository = self._open_repository(run, options)
        readiness = check_repository(repository, self.state_dir)
        commit = Git(repository).resolve(options.root)
        baseline, sweep = None, tuple[str, ...]()
        if options.root_baseline_csv:
            path = Path(self.plan.cwd, options.root_baseline_csv)
            data = self._read(path)
            parse_results(data, _list_metrics(options), str(path))
            baseline = self._keep(ROOT, data, path, options)
        ref = repository.get_ref(Place("wt", "0"))
        update_ref(repository, ref, new=commit)
        add_worktree(repository, Place("wt", "0"), commit)
        if options.evaluate.config_ref:
            sweep = self._plan_sweep(repository, options)
        return Opened(
            root_commit=commit,
            directory=str(self.directory),
            python=sys.executable,
            baseline=baseline,
            sweep=sweep,
            notes=readiness.notes,
        )

    def _plan_sweep(
        self, repository: TreeRepository, options: TreeOptions
    ) -> tuple[str, ...]:
        from autoexp_tui.evaluation.config_sweep import plan_sweep

        return plan_sweep(
            self.planner,
            self.plan,
            options.evaluate,
            top=repository.top,
            root=repository.get_worktree(Place("wt", "0")),
            directory=self.directory,
        )

    def _open_repository(self, run: str, options: TreeOptions) -> TreeRepository:
        if run not in self._opened:
            where = Path(self.plan.cwd, options.repository or ".")
            if options.repository in OWN:
                where = self._make_demo(options)
            root = Path(options.worktree_root or self.directory)
            made = open_repository(where, run, root, options.link_paths)
            self._opened[run] = made
        return self._opened[run]

    def _make_demo(self, options: TreeOptions) -> Path:
        """The example's repository, made once."""
        from autoexp_tui.demo.packing.repository import make_repository

        where = self.directory / DEMO
        if not (where / ".git" / "refs" / "heads" / "main").exists():
            shutil.rmtree(where, ignore_errors=True)
            make_repository(where, options.commit_epoch or 0)
        return where

    @staticmethod
    def _read(path: Path) -> bytes:
        with explaining(path, "read the results"):
            return read_foreign(path, MOST_BYTES)

    def _keep(
        self, name: str, data: bytes, source: Path, options: TreeOptions
    ) -> Artifact:
        """Copy results to where nobody writes any more, unless they are to stay."""
        digest = sha256(data).hexdigest()
        if options.artifact_policy == "external_paths":
            return Artifact(path=str(source), sha256=digest, source=str(source))
        path = f"artifacts/{name}.csv"
        make_directory(self.directory / "artifacts")
        write_atomic(self.directory / path, data)
        return Artifact(path=path, sha256=digest, source=str(source))

    def write_pack(self, request: PackRequest) -> Packed:
        """See `tree.ports`."""
        options, evaluation = request.options, request.evaluation
        repository = self._open_repository(request.run, options)
        files: tuple[tuple[str, str], ...] = ()
        if evaluation is None:
            pack = build_context_pack(
                self._gather_facts(repository, request), options.ideas_context_strategy
            )
            files = pack.files
            home = self.directory / "calls" / name_idea_job(request.node)
            prompt, steps = pack.text.encode(), [IDEAS]
        else:
            home = self.directory / "eval" / evaluation.id
            prompt = self._read_idea(evaluation)
            steps = [IMPLEMENT, PREPARE if options.evaluate.config_ref else SWEEP]
        make_directory(home)
        write_atomic(home / "prompt_context.txt", prompt)
        digest = sha256(prompt).hexdigest()
        made = self._build_request(repository, request)
        made = replace(
            made, prompt=str(home / "prompt_context.txt"), prompt_sha256=digest
        )
        for step in steps:
            write_record(home / f"{step}.json", made)
        jobs: tuple[JobSpec, ...] = ()
        if evaluation is not None and options.evaluate.config_ref:
            from autoexp_tui.evaluation.config_sweep import build_sweep_jobs

            jobs = build_sweep_jobs(made, evaluation)
        return Packed(digest, files, jobs)

    def _read_idea(self, evaluation: Evaluation) -> bytes:
        if evaluation.idea is None:
            return b""
        path = self.directory / "node_ideas" / evaluation.idea.id
        with explaining(path, "read the idea"):
            return read_foreign(path, MOST_IDEA)

    def _build_request(
        self, repository: TreeRepository, request: PackRequest
    ) -> Request:
        evaluation, node = request.evaluation, request.node
        idea = evaluation.idea if evaluation else None
        ideas = self.directory / "node_ideas"
        return Request(
            directory=str(self.directory),
            git_dir=str(repository.git_dir),
            top=str(repository.top),
            worktree_root=str(repository.root),
            run=request.run,
            root_commit=request.root_commit,
            node=node.id,
            ideas_place=node.ideas_place,
            commit=node.commit,
            evaluation=evaluation.id if evaluation else "",
            title=idea.title if idea else "",
            idea=str(ideas / idea.id) if idea else "",
            tree=self.plan.tree,
            agents=self.plan.agents,
            isolation=self.plan.isolation,
            context_dirs=(
                *(str(self.directory / one) for one in request.ideas_dirs),
                *(
                    str(Path(self.plan.cwd, one))
                    for one in request.options.ideas.context_dirs
                ),
            ),
            known_diffs=request.known_diffs,
            seconds=request.options.eval_timeout_seconds,
        )

    def _gather_facts(
        self, repository: TreeRepository, request: PackRequest
    ) -> ContextFacts:
        node, above = request.node, request.ancestors
        changes, parent = (
            read_changes(repository, since, node.commit)
            for since in (
                request.root_commit,
                above[0].commit if above else node.commit,
            )
        )
        refused = [
            SiblingRefusal(eval_id=one.number, title=one.idea.title, why=reason)
            for one in request.siblings
            if one.idea and (reason := _find_refusal(one))
        ]
        return ContextFacts(
            node=_number(node.id),
            depth=node.depth,
            ancestors=tuple(_number(one.id) for one in reversed(above)),
            wanted=request.options.ideas_per_node,
            diffstat_root="\n".join(format_stat(changes)) if changes else "",
            diffstat_parent="\n".join(format_stat(parent)) if parent else "",
            files=tuple(
                ChangedFile(
                    path=one.path, added=one.added or 0, removed=one.removed or 0
                )
                for one in list_top_files(changes, _TOP_FILES)
            ),
            comparison=request.comparison,
            notes=request.options.ideas.notes,
            siblings=tuple(refused),
            ideas=(
                *self._list_foreign_ideas(request.options),
                *(self._describe_idea(idea, found) for idea, found in request.ideas),
            ),
        )

    def _list_foreign_ideas(self, options: TreeOptions) -> Iterator[PriorIdea]:
        """Those of `ideas.context_dirs`."""
        for place in options.ideas.context_dirs:
            for path, idea in _read_ideas(Path(self.plan.cwd, place), []):
                yield PriorIdea(
                    node=None,
                    idea_id=path.name,
                    title=idea.title,
                    text=idea.text,
                    path=f"{place}/{path.name}",
                    sha256=idea.text_hash,
                )

    def _describe_idea(self, idea: Idea, found: Evaluation | None) -> PriorIdea:
        path = self.directory / "node_ideas" / idea.id
        data = path.read_bytes()[:MOST_IDEA] if path.is_file() else b""
        reason = _find_refusal(found) if found else None
        root = found.judgement.root if found and found.judgement else None
        outcome = _describe_score(root) if root else ""
        return PriorIdea(
            node=_number(idea.node),
            idea_id=idea.id,
            title=idea.title,
            text=data.decode("utf-8", "replace"),
            path=f"node_ideas/{idea.id}",
            sha256=idea.sha256,
            outcome=reason.code if reason else outcome,
        )

    def read_ideas(self, directory: str, node: Node, most: int) -> Proposed:
        """See `tree.ports`."""
        problems, home = list[str](), Path(directory, "node_ideas")
        found = [
            Idea(
                node=node.id,
                file=str(path.relative_to(home / node.id)),
                title=idea.title,
                sha256=idea.text_hash,
            )
            for path, idea in _read_ideas(home / node.ideas_place, problems)
            if not is_personal(path.name)
        ]
        failed = self.directory / "calls" / name_idea_job(node) / IMPLEMENTED
        told = find_record(Implemented, failed) or Implemented()
        return Proposed(
            ideas=tuple(found[:most]),
            code=told.code,
            problem="; ".join(filter(None, [told.problem, *problems])),
            resume_at=told.resume_at,
        )

    def write_idea(self, node: str, text: str) -> Idea:
        """See `tree.ports`."""
        data = text.encode()
        try:
            idea = parse_idea("", data)
        except IdeaRefused as refused:
            raise UsageError(sentence(refused.why, 0.0)) from None
        home, name = self.directory / "node_ideas" / node, f"own_{idea.idea_id}{SUFFIX}"
        make_directory(home)
        write_atomic(home / name, data)
        return Idea(node=node, file=name, title=idea.title, sha256=idea.text_hash)

    def collect(self, request: CollectRequest) -> Judgement:
        """See `tree.ports`."""
        one = request.evaluation
        home = self.directory / "eval" / one.id
        made = find_record(Implemented, home / IMPLEMENTED) or Implemented()
        swept = find_record(Swept, home / SWEPT) or Swept()
        judged = self._judge(request, home, made, swept)
        write_record(home / "eval_result.json", judged)
        return judged

    def _judge(
        self, request: CollectRequest, home: Path, made: Implemented, swept: Swept
    ) -> Judgement:
        one, options = request.evaluation, request.options
        base = Judgement(
            outcome="failed",
            commit=made.commit if one.idea else request.root_commit,
            diff_sha256=made.diff_sha256,
            files=made.files,
            resume_at=made.resume_at,
        )
        if reason := _find_failure(request.ending, made, swept):
            return replace(base, why=reason)
        path = home / "output" / RESULTS
        try:
            if options.evaluate.config_ref:
                path = home / RESULTS
                require_refs(load_record(Request, home / f"{PREPARE}.json"), swept.refs)
                data = self._write_rows(request, path)
            else:
                data = self._read(path)
                if sha256(data).hexdigest() != swept.sha256:
                    problem = "it is not what it was when the sweep ended"
                    raise EnvironmentFailed(problem, str(path))
            results = _parse(data, str(path), options)
        except StepFailed as failed:
            told = {"code": failed.code, "problem": failed.problem}
            return replace(base, why=why("candidate_failed", **told))
        except AutoexpError as error:
            problem = error.line.replace(f"{self.directory}/", "")
            return replace(base, why=why("not_collected", problem=problem))
        kept = self._keep(one.id, data, path, options)
        counts = results.count_rows(options.gate.min_rows, options.sweep_config_limit)
        base = replace(
            base,
            outcome="scored",
            artifact=kept,
            counts=counts,
            measured_itself=swept.measured_itself,
        )
        if one.idea is None:
            return replace(base, primary=results.average(options.primary.name))
        parent, root = request.node.baseline, request.root.baseline
        assert parent is not None, "nothing is opened before its node is measured"
        assert root is not None, "nor before the root is"
        before, first = (self._load(file, options) for file in (parent, root))
        doubts = list_doubts(results, before, options)
        comparison = compare_results(before, results, options)
        facts = GateFacts(
            commit=made.commit,
            candidate_results=self._check(kept),
            parent_baseline=self._check(parent),
            counts=counts,
            comparison=comparison,
            doubts=doubts,
            standard_error=request.standard_error,
        )
        return replace(
            base,
            parent=comparison,
            root=compare_results(first, results, options),
            gate=judge_gate(facts, options),
            doubts=doubts,
        )

    def _write_rows(self, request: CollectRequest, path: Path) -> bytes:
        """The results of jobs of a plan, as a CSV of ours."""
        from autoexp_tui.evaluation.config_sweep import write_rows

        options = request.options
        metrics, stage = _list_metrics(options), options.evaluate.stage
        one, jobs = request.evaluation, request.jobs
        data = write_rows(self.directory, one, jobs, metrics, stage)
        write_atomic(path, data)
        return data

    def _load(self, file: Artifact, options: TreeOptions) -> Results:
        path = self.directory / file.path
        return _parse(self._read(path), str(path), options)

    def _check(self, file: Artifact) -> CheckedFile:
        path = self.directory / file.path
        data = path.read_bytes() if path.is_file() else b""
        return CheckedFile(
            path=file.path,
            sha256=file.sha256,
            sha256_now=sha256(data).hexdigest() if data else "",
            in_artifacts=file.path.startswith("artifacts/"),
        )

    def work(self, work: GitWork) -> Sequence[Leftover]:
        """See `tree.ports`."""
        repository = self._open_repository(work.run, work.options)
        git, left = Git(repository), list[Leftover]()
        refs = list_refs(repository, git)
        for (node, commit), evaluation in zip(work.nodes, work.promoted, strict=True):
            left += promote(
                repository, evaluation=evaluation[1:], node=node[1:], commit=commit
            )
        for evaluation in (
            work.rejected if not work.options.keep_rejected_worktrees else ()
        ):
            ref = repository.get_ref(Place("cand", evaluation[1:]))
            left += self.prune(repository, evaluation, refs.get(ref, ""), git)
        failed = work.failed if not work.options.keep_failed_artifacts else ()
        outputs = [path for one in failed for path in self._list_outputs(one)]
        outputs += [one.path for one in work.leftovers if one.kind == "dir"]
        left += self._remove_outputs(outputs)
        again = [one for one in work.leftovers if one.kind != "dir"]
        return [*left, *retry_cleanup(repository, again)]

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

    def prune(
        self, repository: TreeRepository, evaluation: str, commit: str, git: Git
    ) -> Sequence[Leftover]:
        """Remove a candidate's worktree and ref; what could not be removed."""
        return prune(repository, Place("cand", evaluation[1:]), commit, git)

    def write_views(self, tree: Tree, engine: Mapping[str, Any]) -> None:
        """See `tree.ports`."""
        search = list_search(tree, tree.options)
        run = list_run(tree, engine=engine, agents=self._list_agents(tree.options))
        manifest, summary = write_manifest(search, run), render_summary(search)
        write_atomic(self.directory / "manifest.json", manifest.encode())
        write_atomic(self.directory / "TREE_SUMMARY.md", summary.encode())

    def _list_agents(self, options: TreeOptions) -> dict[str, Any]:
        """What the agents of the search are, without what their environment holds."""
        made, ideas = options.implement, options.ideas.agent
        named = {*ideas, *made.agent, *made.review_agent} & self.plan.agents.keys()
        return {
            name: {
                "backend": spec.backend,
                "command": spec.command,
                "model": spec.model,
                "limits": asdict(spec.limits),
            }
            for name in sorted(named)
            for spec in [self.plan.agents[name]]
        }


def _describe_score(root: Comparison) -> str:
    made = root.recommendation
    return f"passed the gate; {made.grade}, score {format_metric(made.score)}"


def _read_ideas(place: Path, problems: list[str]) -> Iterator[tuple[Path, ParsedIdea]]:
    """The ideas in a directory by the names of their files; what is none is told."""
    for path in sorted(place.glob(f"*{SUFFIX}")):
        try:
            yield path, parse_idea(path.name, read_foreign(path, MOST_IDEA))
        except IdeaRefused as refused:
            problems.append(f"{path.name}: {sentence(refused.why, 0.0, keys=False)}")
        except OSError as error:
            problems.append(f"{path.name}: {error.strerror or error}")


def _number(name: str) -> int:
    return int(name[1:])


def _list_metrics(options: TreeOptions) -> list[str]:
    return [metric.name for metric in options.metrics]


def _parse(data: bytes, where: str, options: TreeOptions) -> Results:
    limit = options.sweep_config_limit
    return parse_results(data, _list_metrics(options), where, limit=limit)


def _find_failure(ending: Why | None, made: Implemented, swept: Swept) -> Why | None:
    """What a step says of itself is better than how its job ended; but a limit or a
    person's word stands."""
    if ending is not None and ending.code != "step_failed":
        return ending
    for code, problem in ((made.code, made.problem), (swept.code, swept.problem)):
        if code == "repeated_change":
            return why(code, evaluation=problem)
        if code:
            return why("candidate_failed", code=code, problem=problem)
    return ending


def _find_refusal(one: Evaluation) -> Why | None:
    judged = one.judgement
    if judged is None:
        return None
    if judged.gate is not None:
        return None if judged.gate.passed else judged.gate.why
    return judged.why
