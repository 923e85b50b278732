"""The training loop: from arguments and a text to checkpoints and log lines.

A run that finds its own checkpoint goes on from there, bit for bit. The text is the
source of the Python standard library; another release's has another digest."""

from __future__ import annotations

import hashlib
import math
import sysconfig
import time
from dataclasses import dataclass, replace
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
    from collections.abc import Callable

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


def train(settings: TrainSettings, say: Callable[[str], None]) -> None:
    """Train to the last iteration, giving every log line to `say`; raises DemoError."""
    corpus, shape = read_corpus(), settings.shape
    shortest = min(len(corpus.train), len(corpus.heldout))
    if settings.warmup_iters + settings.decay_iters > settings.train_iters:
        raise DemoError("--warmup-iters and --decay-iters exceed --train-iters")
    if settings.context >= shortest:
        raise DemoError(f"--context {settings.context} exceeds a text of {shortest}")
    if settings.save:
        checkpoints.prepare(settings.save, anew=not settings.resume)
    own = checkpoints.find_newest(settings.save) if settings.save else None
    path = own or (checkpoints.locate(settings.load) if settings.load else None)
    start = find_start(settings, corpus, path)
    sizes = f"{len(corpus.train)} bytes to learn, {len(corpus.heldout)} held out"
    say(f"text: {sizes}, digest {corpus.digest}")
    sizes = f"context {shape.context}, hidden {shape.hidden}"
    say(f"model: {shape.parameters} parameters, {sizes}")
    at = f"successfully loaded checkpoint from {path} at iteration"
    say(f"{at} {start.facts.iteration}" if path else "starting from random weights")
    crash_at = settings.crash_at if own is None else None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        Trainer(replace(settings, crash_at=crash_at), corpus, start, say).run()


def find_start(
    settings: TrainSettings, corpus: Corpus, path: Path | None
) -> Checkpoint:
    """The checkpoint at `path`, or random weights; raises DemoError."""
    shape, seed, limit = settings.shape, settings.seed, settings.train_iters
    if path is None:
        weights = initialize_weights(shape, seed)
        facts = RunFacts(0, 0, seed, settings.lr, corpus.digest, shape)
        return Checkpoint(
            facts, weights, np.zeros_like(weights), np.zeros_like(weights)
        )
    found = checkpoints.load(path)
    facts = found.facts
    if facts.shape != shape:
        raise DemoError(f"{path} holds {facts.shape}, not {shape}")
    if facts.iteration > limit:
        at = f"{path} is at iteration {facts.iteration}"
        raise DemoError(f"{at}, beyond --train-iters {limit}")
    checkpoints.require_corpus(path, facts, corpus.digest)
    return replace(found, facts=replace(facts, seed=seed, lr=settings.lr))


class Trainer:
    """One run in progress."""

    def __init__(
        self,
        settings: TrainSettings,
        corpus: Corpus,
        start: Checkpoint,
        say: Callable[[str], None],
    ) -> None:
        """Take over the arrays of the checkpoint to start from."""
        self._settings = settings
        self._corpus = corpus
        self._say = say
        self._facts = start.facts
        self._iteration = self._facts.iteration
        self._samples = self._facts.samples
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
        save = self._settings.save
        while not self._is_finished():
            self._iterate()
        name = checkpoints.name_iteration(self._iteration)
        if save is not None and not checkpoints.is_complete(save / name):
            self._save(save)
        self._say(f"training complete at iteration {self._iteration}")

    def _iterate(self) -> None:
        if self._iteration + 1 == self._settings.crash_at:
            raise RuntimeError(f"asked to crash at iteration {self._iteration + 1}")
        before = time.perf_counter()
        loss, norm = self._step()
        self._seconds += time.perf_counter() - before
        self._losses.append(loss)
        settings, is_last = self._settings, self._is_finished()
        if self._is_due(settings.log_interval) or is_last:
            self._log(norm)
        if self._is_due(settings.eval_interval):
            text, context = self._corpus.heldout, settings.context
            loss = text_loss(self._weights, text, context, VALIDATION_STRIDE)
            self._say(
                f" validation loss at iteration {self._iteration} | "
                f"lm loss value: {format_number(loss, '.6E')} |"
            )
        if self._is_due(settings.save_interval) and not is_last and settings.save:
            self._save(settings.save)

    def _step(self) -> tuple[float, float]:
        """One iteration of learning; returns its loss and gradient norm."""
        settings = self._settings
        self._iteration += 1
        self._samples += settings.batch_size
        size, seed = settings.batch_size, settings.seed
        contexts, targets = batch(
            self._corpus.train, settings.context, size, seed, self._iteration
        )
        loss = loss_and_gradient(self._weights, self._slopes, contexts, targets)
        norm = clip(self._gradient, settings.clip_grad)
        rate = settings.rate(self._iteration)
        self._adam.update(self._flat, self._gradient, rate, self._iteration)
        return loss, norm

    def _is_due(self, interval: int) -> bool:
        return interval > 0 and self._iteration % interval == 0

    def _is_finished(self) -> bool:
        return self._iteration >= self._settings.train_iters

    def _log(self, norm: float) -> None:
        """Say the interval's means in the form of Megatron-LM's log lines.

        The training loss is `lm loss:`, the held-out one `lm loss value:`: no pattern
        takes one for the other.
        """
        count, settings = len(self._losses), self._settings
        loss, rate = sum(self._losses) / count, settings.rate(self._iteration)
        speed = settings.batch_size * count / self._seconds
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        fields = (
            f" [{stamp}] iteration {self._iteration:8d}/{settings.train_iters:8d}",
            f"lm loss: {format_number(loss, '.6E')}",
            f"learning rate: {format_number(rate, '.3E')}",
            f"tokens/s: {speed:.0f}",
            f"grad norm: {format_number(norm, '.3f')}",
            f"consumed samples: {self._samples}",
            f"elapsed time per iteration (ms): {self._seconds / count * 1e3:.1f} |",
        )
        self._losses, self._seconds = [], 0.0
        self._say(" | ".join(fields))

    def _save(self, directory: Path) -> None:
        facts = replace(self._facts, iteration=self._iteration, samples=self._samples)
        state = Checkpoint(facts, self._flat, self._adam.mean, self._adam.square)
        path = checkpoints.save(directory, state)
        done = f"successfully saved checkpoint from iteration {self._iteration:7d}"
        self._say(f"{done} to {path}")


def format_number(value: float, spec: str) -> str:
    """A number in a format, or plain `nan`, `inf`, `-inf`."""
    return format(value, spec) if math.isfinite(value) else str(value)


Bytes = npt.NDArray[np.uint8]

VOCABULARY = 128
"""Only ASCII text is read, so a byte has 128 values."""
TRAIN_BYTES = 1_500_000
HELDOUT_BYTES = 65_536
FILE_BYTES = 32_768
"""No file gives more than this, so that no single one dominates."""
HELDOUT_ONE_IN = 10
SEPARATOR = b"\0"


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Training and held-out text, split by file."""

    train: Bytes
    heldout: Bytes
    digest: str
    """sha256 over both parts, in hexadecimal, shortened to 16 characters."""


def read_corpus(root: Path | None = None) -> Corpus:
    """Read the modules in `root` (the standard library), by name; raises DemoError."""
    place = root or Path(sysconfig.get_path("stdlib"))
    texts = [path.read_bytes()[:FILE_BYTES] for path in sorted(place.glob("*.py"))]
    texts = [text for text in texts if text.isascii()]
    heldout = SEPARATOR.join(texts[::HELDOUT_ONE_IN])[:HELDOUT_BYTES]
    del texts[::HELDOUT_ONE_IN]
    train = SEPARATOR.join(texts)[:TRAIN_BYTES]
    if not train or not heldout:
        raise DemoError(f"no Python source text to learn from in {place}")
    digest = hashlib.sha256(train + SEPARATOR + heldout).hexdigest()[:16]
    arrays = [np.frombuffer(text, dtype=np.uint8) for text in (train, heldout)]
    return Corpus(arrays[0], arrays[1], digest)


def batch(
    text: Bytes, context: int, size: int, seed: int, iteration: int
) -> tuple[Bytes, Bytes]:
    """The contexts (size, context) and next bytes (size,) of one iteration.

    A function of its arguments alone, so that a resumed run sees what it would have
    seen. The text must be longer than the context.
    """
    starts = len(text) - context
    # The iteration is the highest counter word: streams of neighbours never overlap.
    stream = np.random.Philox(key=seed, counter=[0, 0, 0, iteration])
    offsets = np.asarray(stream.random_raw(size)) % np.uint64(starts)
    windows = text[offsets.astype(np.int64)[:, None] + np.arange(context + 1)]
    return windows[:, :context], windows[:, context]
