"""What a job was made from, kept beside its results: `output_dir/provenance/`.
Planning leaves a *record* of all configs beside the manifest, most as differences from
one whole (`text.plain_tree.Patched`); a job's part is taken out when it is sent."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.masking import mask_override, mask_text, mask_words, mask_yaml
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.probes.yaml_text import format_yaml
from autoexp_tui.storage.atomic import MODES, make_directory, write_atomic
from autoexp_tui.storage.manifests import get_manifest
from autoexp_tui.storage.session_dir import read_if_there
from autoexp_tui.text import plain_tree
from autoexp_tui.text.plain_tree import Patched

VERSION: Final = 3
_ANY_TEXT: Final = ("utf-8", "surrogatepass")
_MOST_DIFF: Final = 1 << 20
"""Bytes of a diff that are kept; data under version control must not fill the disk."""
_MOST_READ: Final = 1 << 30
_MOST_NAMES: Final = 1000
_MADE_FROM: Final = "made_from.json"
_DIFF: Final = (
    *("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short"),
    *("--ignore-submodules=dirty", "HEAD", "--"),
)
_UNTRACKED: Final = ("ls-files", "--others", "--exclude-standard", "--full-name", "-z")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitState:
    """The repository that the plan was made in; empty commit: there is none."""

    commit: str = ""
    diff: str = ""
    """Of tracked files against the commit; cut at 1 MiB."""
    untracked: tuple[str, ...] = ()
    """Names of files that git neither tracks nor ignores; the first 1,000."""
    note: str = ""
    """Why something above is missing or cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeFrom:
    """What a job was made from that no config made; empty: there is none, or it is not
    known."""

    asked_by: str = ""
    idea: str = ""
    """What it tries."""
    commit: str = ""
    """Of the code that it runs."""
    parent: str = ""
    """The commit that this one was made on."""
    diff: str = ""
    """The file that holds what differs between the two."""
    diff_sha256: str = ""

    def list_facts(self) -> tuple[tuple[str, str], ...]:
        """What is known, each with its name."""
        known = {name: text for name, text in asdict(self).items() if text}
        return (("config", "none: the session made it of its command"), *known.items())


class JobConfigs(NamedTuple):
    resolved: str
    unresolved: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceRecord:
    git: GitState = GitState()
    wholes: Sequence[dict[str, Any]] = ()
    configs: Mapping[str, str] = field(default_factory=dict)
    """Job name -> its two configs as JSON: texts, or a number of `wholes` with
    changes."""
    made_from: MadeFrom | None = None
    """Of a job that no config made."""

    def get_configs(self, job: str) -> JobConfigs | None:
        """One job's configs; None when planning kept none; raises EnvironmentFailed."""
        found = self._unpack(job)
        texts = [one if isinstance(one, str) else format_yaml(one) for one in found]
        return JobConfigs(*texts) if texts else None

    def load_resolved(self, job: str) -> object:
        """One job's resolved config; None where planning kept none that reads; raises
        EnvironmentFailed."""
        resolved, *_ = (*self._unpack(job), None)
        if not isinstance(resolved, str):
            return resolved
        import yaml

        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        with suppress(yaml.YAMLError):
            return yaml.load(resolved, Loader=loader)
        return None

    def _unpack(self, job: str) -> Sequence[Any]:
        """Both configs of a job, each as text or as data; none where none are kept."""
        kept = self.configs.get(job)
        if kept is None:
            return ()
        try:
            resolved, unresolved = map(self._unpack_part, json.loads(kept))
        except (ValueError, LookupError, TypeError, zlib.error) as error:
            hint = "Make the plan again with autoexp-plan."
            problem = f"a config is damaged: {error}"
            raise EnvironmentFailed(problem, hint=hint) from error
        return resolved, unresolved

    def _unpack_part(self, part: Any) -> object:
        if isinstance(part, str):
            return zlib.decompress(base64.b85decode(part)).decode(*_ANY_TEXT)
        number, changes = part
        values = {tuple(path): value for path, value in changes}
        return plain_tree.with_values(self.wholes[number], values)


class RecordBuilder:
    """Gathers the configs of jobs while they are made; nobody changes them after."""

    def __init__(self) -> None:
        self._wholes: dict[int, tuple[int, dict[Any, Any]]] = {}
        """id -> number and dict, held so that its id stays its own."""
        self._kept: dict[int, str] = {}

    def add(self, index: int, *configs: Mapping[str, object]) -> None:
        """Keep the resolved and the written config of the job at `index`; a later call
        replaces."""
        is_patched = all(isinstance(config, Patched) for config in configs)
        pack = self._split_patched if is_patched else _pack_whole
        parts = [*map(pack, configs)]
        self._kept[index] = json.dumps(parts, separators=(",", ":"))

    def _split_patched(self, tree: Any) -> object:
        """The number of the whole that a tree differs from, and in what."""
        known = len(self._wholes), tree.origin
        return self._wholes.setdefault(id(tree.origin), known)[0], [
            *_list_changes(tree)
        ]

    def record(self, jobs: Iterable[JobSpec], git: GitState) -> ProvenanceRecord:
        """The record of these jobs; one that was never added is left out."""
        configs = {
            job.name: self._kept[job.index] for job in jobs if job.index in self._kept
        }
        wholes = [whole for _, whole in self._wholes.values()]
        return ProvenanceRecord(git=git, wholes=wholes, configs=configs)


def _pack_whole(tree: Mapping[str, object]) -> object:
    """A whole config, packed: thousands are held at a time."""
    return base64.b85encode(
        zlib.compress(format_yaml(tree).encode(*_ANY_TEXT))
    ).decode()


def _list_changes(
    tree: Patched, path: plain_tree.Path = ()
) -> Iterator[tuple[plain_tree.Path, object]]:
    for key in tree.changed:
        value = tree[key]
        if isinstance(value, Patched) and value.origin is tree.origin.get(key):
            yield from _list_changes(value, (*path, key))
        else:
            yield (*path, key), value


def record_path(state_dir: Path, plan_id: str) -> Path:
    """Where the record of a plan lies: beside its manifest."""
    return get_manifest(state_dir, plan_id).with_suffix(".provenance.json.gz")


def save_record(state_dir: Path, plan_id: str, record: ProvenanceRecord) -> Path:
    """Keep the record of a plan, or of a job planned anew; raises EnvironmentFailed."""
    path = record_path(state_dir, plan_id)
    _write_record(path, record)
    return path


def _write_record(path: Path, record: ProvenanceRecord) -> None:
    tree = {"version": VERSION, "git": asdict(record.git), "wholes": record.wholes}
    tree["configs"] = record.configs
    make_directory(path.parent)
    write_atomic(path, gzip.compress(json.dumps(tree).encode(), 6, mtime=0))


def load_record(path: Path) -> ProvenanceRecord | None:
    """The record in a file; None: none that we can read; raises EnvironmentFailed."""
    data = read_if_there(path)
    if data is None:
        return None
    try:
        tree = json.loads(gzip.decompress(data))
        if tree.pop("version") == VERSION:
            git = tree.pop("git")
            git["untracked"] = tuple(git["untracked"])
            return ProvenanceRecord(git=GitState(**git), **tree)
    except (KeyError, TypeError, ValueError, OSError, EOFError, zlib.error):
        pass
    return None


def record_of(plan: Plan, state_dir: Path) -> ProvenanceRecord | None:
    """The record in `state_dir`, else where planning left it; raises
    EnvironmentFailed."""
    places = dict.fromkeys((state_dir, Path(plan.state_dir or state_dir)))
    paths = (record_path(place, plan.plan_id) for place in places)
    return next(filter(None, map(load_record, paths)), None)


def load_made_from(job: JobSpec) -> MadeFrom | None:
    """What a job was made from that no config made, as one that ran has it beside it;
    None: a config made it, or nothing is kept; raises EnvironmentFailed."""
    kept = read_if_there(Path(job.output_dir, "provenance", _MADE_FROM))
    with suppress(ValueError, TypeError):
        return None if kept is None else MadeFrom(**json.loads(kept))
    return None


def write_provenance(plan: Plan, job: JobSpec, record: ProvenanceRecord | None) -> Path:
    """Write `provenance/` into the job's output directory, masked, for others may read
    it; may be repeated; raises EnvironmentFailed."""
    directory = Path(job.output_dir) / "provenance"
    modes = MODES[plan.share]
    make_directory(directory, modes.directory, place="output")
    for name, text in _build_files(plan, job, record).items():
        data = text.encode("utf-8", "surrogatepass")
        write_atomic(directory / name, data, modes.file, durable=False, place="output")
    return directory


def _build_files(
    plan: Plan, job: JobSpec, record: ProvenanceRecord | None
) -> dict[str, str]:
    git = record.git if record else GitState(note="not recorded")
    clean = "with uncommitted changes: git.diff" if git.diff else "clean"
    made = record.made_from if record else None
    if made is None and not plan.config_ref:  # a rule or a policy made the plan
        made = MadeFrom()
    if made is not None:
        clean = f"made on {made.parent}: git.diff" if git.diff else ""
    names = "with files that git does not track: git_untracked.txt"
    head = [f"commit {git.commit}", *filter(None, (clean,))] if git.commit else []
    head += [*([names] if git.untracked else []), *([git.note] if git.note else [])]
    files = {
        "overrides.txt": _join_lines(
            mask_override(text, plan.mask) for text in (*plan.overrides, *job.overrides)
        ),
        "environment.txt": _join_lines(
            f"{name} {f'hmac-sha256:{digest}' if digest else 'not set'}"
            for name, digest in plan.environment.items()
        ),
        "git.txt": _join_lines(head),
        "command.json": json.dumps(mask_words(job.command, plan.mask), indent=1) + "\n",
    }
    if git.diff:
        files["git.diff"] = mask_yaml(git.diff, plan.mask)
    if git.untracked:
        files["git_untracked.txt"] = _join_lines(git.untracked)
    configs = record.get_configs(job.name) if record is not None else None
    if made is not None:
        known = {name: text for name, text in asdict(made).items() if text}
        known = {name: mask_text(text, plan.mask) for name, text in known.items()}
        files[_MADE_FROM] = json.dumps(known, indent=1) + "\n"
    elif configs is not None:
        files["resolved_config.yaml"] = mask_yaml(configs.resolved, plan.mask)
        files["unresolved_config.yaml"] = mask_yaml(configs.unresolved, plan.mask)
    elif not Path(job.output_dir, "provenance", "resolved_config.yaml").exists():
        files["MISSING.txt"] = "The plan came without the record of its configs.\n"
    return files


def _join_lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def read_git_state(directory: Path) -> GitState:
    """The commit and the uncommitted changes of the repository around `directory`."""
    from autoexp_tui.storage.repository import Repository

    try:
        git = Repository(directory)
        commit, _ = git.read("rev-parse", "HEAD", most=_MOST_DIFF)
        if not commit:
            return GitState(note="not in a git repository, or no commit yet")
        diff, cut = git.read(*_DIFF, most=_MOST_DIFF)
        names, more = git.read(*_UNTRACKED, most=_MOST_DIFF)
    except EnvironmentFailed as error:
        return GitState(note=str(error))
    untracked = names.decode("utf-8", "replace").split("\0")[:-1]
    notes = [f"the diff was cut at {_MOST_DIFF} bytes"] if cut else []
    if more or len(untracked) > _MOST_NAMES:
        notes.append(f"only the first {_MOST_NAMES} untracked files are named")
    return GitState(
        commit=commit.decode().strip(),
        diff=diff.decode("utf-8", "replace"),
        untracked=tuple(untracked[:_MOST_NAMES]),
        note="; ".join(notes),
    )
