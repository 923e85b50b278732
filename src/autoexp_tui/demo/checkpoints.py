"""Checkpoints on disk: complete or not there, whatever kills the writer.

`DIR/iter_00008000/` appears by one rename, after everything in it was written;
`DIR/latest_checkpointed_iteration.txt` follows and is for other tools."""

from __future__ import annotations

import itertools
import json
import shutil
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from autoexp_tui.demo.model import Floats, Shape

ARRAYS_FILE = "model.npz"
DONE_FILE = "done.txt"
LATEST_FILE = "latest_checkpointed_iteration.txt"
PARTIAL_SUFFIX = ".partial"
_NAMES = "iter_" + 8 * "[0-9]"


class DemoError(Exception):
    """What a user can put right, in one line; all else ends in a traceback."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What describes a checkpoint apart from its arrays."""

    iteration: int
    """Also Adam's step and, with the seed, the whole state of the data order."""
    samples: int
    """Consumed so far; one sample predicts one byte."""
    seed: int
    lr: float
    """The peak learning rate of the run that wrote it."""
    corpus: str
    """Digest of the text."""
    shape: Shape


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """Everything that a run needs to go on as if it had never stopped."""

    facts: RunFacts
    parameters: Floats
    mean: Floats
    """Adam's first moment."""
    square: Floats
    """Adam's second moment."""


def name_iteration(iteration: int) -> str:
    """The directory of an iteration below a save directory."""
    return f"iter_{iteration:08d}"


def is_complete(path: Path) -> bool:
    """Whether `path` is the directory of a finished checkpoint."""
    return (path / DONE_FILE).is_file()


def find_newest(directory: Path) -> Path | None:
    """The complete checkpoint with the highest iteration in a save directory."""
    return max(filter(is_complete, directory.glob(_NAMES)), default=None)


def locate(path: Path, iteration: int | None = None) -> Path:
    """The checkpoint of an `iter_*` or a save directory (there the newest, or that of
    `iteration`); raises DemoError where it is not there, or not complete."""
    if is_complete(path):
        return path
    wanted = path / name_iteration(iteration or 0)
    found = wanted if iteration else find_newest(path)
    if found is None or not is_complete(found):
        raise DemoError(f"no complete checkpoint at {wanted if iteration else path}")
    return found


def prepare(directory: Path, *, anew: bool = False) -> None:
    """Make a save directory, and remove what a killed writer left in it; `anew`: what
    an earlier run left is moved aside."""
    if anew and find_newest(directory) is not None:
        names = (f"{directory.name}.earlier-{n}" for n in itertools.count(1))
        places = map(directory.with_name, names)
        directory.rename(next(place for place in places if not place.exists()))
    directory.mkdir(parents=True, exist_ok=True)
    for path in directory.glob(f".iter_*{PARTIAL_SUFFIX}"):
        shutil.rmtree(path, ignore_errors=True)


def save(directory: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint into a prepared directory; returns its own directory."""
    iteration = checkpoint.facts.iteration
    final = directory / name_iteration(iteration)
    partial = directory / f".{final.name}{PARTIAL_SUFFIX}"
    partial.mkdir()
    np.savez(
        partial / ARRAYS_FILE,
        facts=np.array(json.dumps(asdict(checkpoint.facts))),
        parameters=checkpoint.parameters,
        mean=checkpoint.mean,
        square=checkpoint.square,
    )
    (partial / DONE_FILE).write_text(f"{iteration}\n")
    # A rename cannot replace a directory; one that stands here was not complete.
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)
    write_atomic(directory / LATEST_FILE, f"{iteration}\n")
    return final


def load(path: Path) -> Checkpoint:
    """Read the checkpoint in an `iter_*` directory; raises DemoError."""
    try:
        # Opened here, because np.load leaves a file open that is no archive.
        with (path / ARRAYS_FILE).open("rb") as file, np.load(file) as arrays:
            record = json.loads(str(arrays["facts"]))
            shape = Shape(**record.pop("shape"))
            states = (arrays[name] for name in ("parameters", "mean", "square"))
            return Checkpoint(RunFacts(**record, shape=shape), *states)
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise DemoError(f"cannot read the checkpoint {path}: {error}") from error


def require_corpus(path: Path, facts: RunFacts, corpus: str) -> None:
    """Raise DemoError unless the checkpoint was trained on the text at hand."""
    if facts.corpus != corpus:
        raise DemoError(
            f"{path} was trained on another text (digest {facts.corpus}, here "
            f"{corpus}): use the Python release that trained it"
        )


def write_atomic(path: Path, text: str) -> None:
    """Replace `path` with `text` in one step, making its directory if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}{PARTIAL_SUFFIX}")
    partial.write_text(text)
    partial.replace(path)
