"""The training loop: from arguments and a text to checkpoints and log lines.

A run that finds its own checkpoint goes on from there, bit for bit as if it had not
stopped. A loss that is no longer a number is printed and not acted on: to notice it is
the supervisor's part.

The text is the source of the Python standard library itself. Every machine that can run
the trainer has it, so nothing is downloaded. Which files are read, in which order, and
which are held out depends on their names alone. Another Python release is another text:
the digest says which one, and losses on two texts are not comparable.
"""

from __future__ import annotations

import hashlib
import math
import os
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from autoexp_tui.demo import checkpoints
from autoexp_tui.demo.checkpoints import Checkpoint, DemoError, RunFacts
from autoexp_tui.demo.model import (
    Adam,
    Schedule,
    Shape,
    clip,
    initialize_weights,
    loss_and_gradient,
    split_weights,
    text_loss,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

VALIDATION_STRIDE = 8
"""In mid-run every eighth held-out byte is enough; an evaluation takes them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings(Schedule):
    """The arguments of a training run."""

    batch_size: int
    context: int
    hidden: int
    seed: int
    clip_grad: float
    """Largest norm of the gradient; 0 never clips."""
    weight_init_scale: float
    log_interval: int
    save_interval: int
    """0 saves at the end only."""
    eval_interval: int
    """0 never evaluates."""
    save: Path | None
    load: Path | None
    crash_at: int | None
    """Iteration at which a run that has not been resumed raises."""
    resume: bool
    """Whether what lies in `save` is this run's own; if not, it is set aside."""

    @property
    def shape(self) -> Shape:
        """The model that these settings ask for."""
        return Shape(self.context, self.hidden, VOCABULARY)

    def require_valid(self, shortest: int) -> None:
        """Raise DemoError for what contradicts itself, or a text of `shortest`."""
        if self.warmup_iters + self.decay_iters > self.train_iters:
            raise DemoError("--warmup-iters and --decay-iters exceed --train-iters")
        if self.min_lr > self.lr:
            raise DemoError("--min-lr exceeds --lr")
        if self.context >= shortest:
            raise DemoError(f"--context {self.context} exceeds a text of {shortest}")


def train(settings: TrainSettings, say: Callable[[str], None]) -> None:
    """Train to the last iteration, giving every log line to `say`.

    Raises DemoError for what the user can put right, and RuntimeError where `crash_at`
    asks for it.
    """
    corpus = read_corpus()
    settings.require_valid(min(len(corpus.train), len(corpus.heldout)))
    start, line, resumed = find_start(settings, corpus)
    shape = settings.shape
    sizes = f"{len(corpus.train)} bytes to learn, {len(corpus.heldout)} held out"
    say(f"text: {sizes}, digest {corpus.digest}")
    sizes = f"context {shape.context}, hidden {shape.hidden}"
    say(f"model: {shape.parameters} parameters, {sizes}")
    say(line)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        Trainer(settings, corpus, start, say, resumed=resumed).run()


# -------------------------------------------------------------------------------- start
def find_start(settings: TrainSettings, corpus: Corpus) -> tuple[Checkpoint, str, bool]:
    """The newest own checkpoint, else the one to load, else random weights.

    With it its log line, and whether the run is a restart: goes on from its own. A run
    that was told to start afresh first sets aside what an earlier one saved.
    """
    if settings.save and not settings.resume:
        checkpoints.set_aside(settings.save)
    own = checkpoints.find_newest(settings.save) if settings.save else None
    if own is None and settings.load is None:
        return _random_start(settings, corpus), "starting from random weights", False
    path = own or checkpoints.locate(settings.load or Path())
    found = checkpoints.load(path)
    _require_fit(path, found.facts, settings)
    checkpoints.require_corpus(path, found.facts, corpus.digest)
    iteration = found.facts.iteration
    line = f"successfully loaded checkpoint from {path} at iteration {iteration}"
    return found, line, own is not None


def _require_fit(path: Path, facts: RunFacts, settings: TrainSettings) -> None:
    if facts.shape != settings.shape:
        raise DemoError(f"{path} holds {facts.shape}, not {settings.shape}")
    if facts.iteration > settings.train_iters:
        raise DemoError(
            f"{path} is at iteration {facts.iteration}, beyond --train-iters "
            f"{settings.train_iters}"
        )


def _random_start(settings: TrainSettings, corpus: Corpus) -> Checkpoint:
    parameters = initialize_weights(
        settings.shape, settings.seed, settings.weight_init_scale
    )
    facts = _make_facts(settings, corpus, iteration=0, samples=0)
    return Checkpoint(
        facts, parameters, np.zeros_like(parameters), np.zeros_like(parameters)
    )


def _make_facts(
    settings: TrainSettings, corpus: Corpus, *, iteration: int, samples: int
) -> RunFacts:
    return RunFacts(
        iteration=iteration,
        samples=samples,
        seed=settings.seed,
        lr=settings.lr,
        corpus=corpus.digest,
        shape=settings.shape,
    )


# --------------------------------------------------------------------------------- loop
class Trainer:
    """One run in progress."""

    def __init__(
        self,
        settings: TrainSettings,
        corpus: Corpus,
        start: Checkpoint,
        say: Callable[[str], None],
        *,
        resumed: bool,
    ) -> None:
        """Take over the arrays of the checkpoint to start from."""
        self._settings = settings
        self._corpus = corpus
        self._say = say
        self._crash_at = None if resumed else settings.crash_at
        self._iteration = start.facts.iteration
        self._samples = start.facts.samples
        self._flat = start.parameters
        self._gradient = np.empty_like(self._flat)
        self._weights = split_weights(self._flat, settings.shape)
        self._slopes = split_weights(self._gradient, settings.shape)
        self._adam = Adam(start.mean, start.square)
        self._losses: list[float] = []
        """Of the log interval so far; `_seconds` leaves evaluation and saving out."""
        self._seconds = 0.0

    def run(self) -> None:
        """Train to the end; the last iteration is always saved."""
        if self._settings.save is not None:
            checkpoints.prepare(self._settings.save)
        while not self._is_finished():
            self._iterate()
        self._save_last()
        self._say(f"training complete at iteration {self._iteration}")

    def _iterate(self) -> None:
        if self._iteration + 1 == self._crash_at:
            raise RuntimeError(f"asked to crash at iteration {self._crash_at}")
        before = time.perf_counter()
        loss, norm = self._step()
        self._seconds += time.perf_counter() - before
        self._losses.append(loss)
        self._report(norm)

    def _step(self) -> tuple[float, float]:
        """One iteration of learning; returns its loss and gradient norm."""
        settings = self._settings
        self._iteration += 1
        self._samples += settings.batch_size
        contexts, targets = batch(
            self._corpus.train,
            settings.context,
            settings.batch_size,
            settings.seed,
            self._iteration,
        )
        loss = loss_and_gradient(self._weights, self._slopes, contexts, targets)
        norm = clip(self._gradient, settings.clip_grad)
        rate = settings.rate(self._iteration)
        self._adam.update(self._flat, self._gradient, rate, self._iteration)
        return loss, norm

    def _report(self, norm: float) -> None:
        settings = self._settings
        if self._is_due(settings.log_interval) or self._is_finished():
            self._log(norm)
        if self._is_due(settings.eval_interval):
            self._validate()
        if self._is_due(settings.save_interval) and not self._is_finished():
            self._save()

    def _is_due(self, interval: int) -> bool:
        return interval > 0 and self._iteration % interval == 0

    def _is_finished(self) -> bool:
        return self._iteration >= self._settings.train_iters

    def _log(self, norm: float) -> None:
        """Say the interval's means: not finite when one loss of it is not."""
        count, settings = len(self._losses), self._settings
        progress = Progress(
            iteration=self._iteration,
            train_iters=settings.train_iters,
            samples=self._samples,
            seconds_per_iteration=self._seconds / count,
            tokens_per_second=settings.batch_size * count / self._seconds,
            rate=settings.rate(self._iteration),
            loss=sum(self._losses) / count,
            grad_norm=norm,
        )
        self._losses, self._seconds = [], 0.0
        self._say(format_progress(progress, time.time()))

    def _validate(self) -> None:
        text, context = self._corpus.heldout, self._settings.context
        loss = text_loss(self._weights, text, context, VALIDATION_STRIDE)
        self._say(format_validation(self._iteration, loss))

    def _save_last(self) -> None:
        name = checkpoints.name_iteration(self._iteration)
        save = self._settings.save
        if save is None or not checkpoints.is_complete(save / name):
            self._save()

    def _save(self) -> None:
        if self._settings.save is None:
            return
        facts = _make_facts(
            self._settings,
            self._corpus,
            iteration=self._iteration,
            samples=self._samples,
        )
        state = Checkpoint(facts, self._flat, self._adam.mean, self._adam.square)
        path = checkpoints.save(self._settings.save, state)
        done = f"successfully saved checkpoint from iteration {self._iteration:7d}"
        self._say(f"{done} to {path}")


# ---------------------------------------------------------------------------- log lines
# The forms follow Megatron-LM, whose logs most supervisors already read. The training
# loss is `lm loss:`, the held-out one `lm loss value:`; no pattern takes one for the
# other.
@dataclass(frozen=True, slots=True)
class Progress:
    """One log interval."""

    iteration: int
    train_iters: int
    samples: int
    """Consumed since the run began; one sample predicts one byte."""
    seconds_per_iteration: float
    tokens_per_second: float
    rate: float
    loss: float
    grad_norm: float


def format_number(value: float, spec: str) -> str:
    """A number in a format, or plain `nan`, `inf`, `-inf`."""
    return format(value, spec) if math.isfinite(value) else str(value)


def format_progress(progress: Progress, now: float) -> str:
    """One log interval as a line, what matters most first.

    `now` is in seconds since the epoch.
    """
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    fields = (
        f" [{stamp}] iteration {progress.iteration:8d}/{progress.train_iters:8d}",
        f"lm loss: {format_number(progress.loss, '.6E')}",
        f"learning rate: {format_number(progress.rate, '.3E')}",
        f"tokens/s: {progress.tokens_per_second:.0f}",
        f"grad norm: {format_number(progress.grad_norm, '.3f')}",
        f"consumed samples: {progress.samples}",
        f"elapsed time per iteration (ms): "
        f"{progress.seconds_per_iteration * 1e3:.1f} |",
    )
    return " | ".join(fields)


def format_validation(iteration: int, loss: float) -> str:
    """The held-out loss in the middle of a run."""
    return (
        f" validation loss at iteration {iteration} | "
        f"lm loss value: {format_number(loss, '.6E')} |"
    )


# -------------------------------------------------------------------------------- text
Bytes = npt.NDArray[np.uint8]

VOCABULARY = 128
"""Only ASCII text is read, so a byte has 128 values."""
TRAIN_BYTES = 1_500_000
HELDOUT_BYTES = 65_536
FILE_BYTES = 32_768
"""No file gives more than this, so that no single one dominates."""
HELDOUT_ONE_IN = 10
SEPARATOR = b"\0"
NOT_TEXT = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idlelib", "__pycache__"}
)
"""Directories that some distributions leave out, or that hold no library."""


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Training and held-out text, split by file."""

    train: Bytes
    heldout: Bytes
    digest: str
    """sha256 over both parts, in hexadecimal, shortened to 16 characters."""


def read_corpus(root: Path | None = None) -> Corpus:
    """Read the `*.py` files below `root`, by default the standard library.

    Raises DemoError when there is too little text for both parts.
    """
    place = root or Path(sysconfig.get_path("stdlib"))
    train, heldout = _read_parts(place)
    if not train or not heldout:
        raise DemoError(f"no Python source text to learn from below {place}")
    return Corpus(
        _build_array(train), _build_array(heldout), _hash_text(train, heldout)
    )


def _read_parts(root: Path) -> tuple[bytes, bytes]:
    names = sorted(_source_names(root), key=_name_hash)
    heldout = [name for name in names if _is_heldout(name)]
    train = [name for name in names if not _is_heldout(name)]
    return (
        _join(_read_texts(root, train), TRAIN_BYTES),
        _join(_read_texts(root, heldout), HELDOUT_BYTES),
    )


def _source_names(root: Path) -> Iterator[str]:
    for directory, below, files in os.walk(root):
        below[:] = [name for name in below if name not in NOT_TEXT]
        place = Path(directory).relative_to(root)
        for name in files:
            if name.endswith(".py"):
                yield (place / name).as_posix()


def _name_hash(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()


def _is_heldout(name: str) -> bool:
    return _name_hash(name)[-1] % HELDOUT_ONE_IN == 0


def _read_texts(root: Path, names: Iterable[str]) -> Iterator[bytes]:
    for name in names:
        with (root / name).open("rb") as file:
            text = file.read(FILE_BYTES)
        if text.isascii():
            yield text


def _join(texts: Iterable[bytes], limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    for text in texts:
        if size >= limit:
            break
        parts.append(text)
        size += len(text) + len(SEPARATOR)
    return SEPARATOR.join(parts)[:limit]


def _build_array(text: bytes) -> Bytes:
    return np.frombuffer(text, dtype=np.uint8)


def _hash_text(train: bytes, heldout: bytes) -> str:
    return hashlib.sha256(train + SEPARATOR + heldout).hexdigest()[:16]


def batch(
    text: Bytes, context: int, size: int, seed: int, iteration: int
) -> tuple[Bytes, Bytes]:
    """The contexts (size, context) and next bytes (size,) of one iteration.

    A function of its arguments alone: the data order has no state beyond the seed and
    the iteration, which is what lets a resumed run see what it would have seen. The
    text must be longer than the context.
    """
    starts = len(text) - context
    # The iteration is the highest counter word: streams of neighbours never overlap.
    stream = np.random.Philox(key=seed, counter=[0, 0, 0, iteration])
    offsets = np.asarray(stream.random_raw(size)) % np.uint64(starts)
    windows = text[offsets.astype(np.int64)[:, None] + np.arange(context + 1)]
    return windows[:, :context], windows[:, context]
