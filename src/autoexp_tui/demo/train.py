"""The training loop: from arguments to checkpoints and log lines.

A run that finds its own checkpoint goes on from there, bit for bit as if it had not
stopped. A loss that is no longer a number is printed and not acted on: to notice it is
the supervisor's part.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from autoexp_tui.demo import checkpoint as checkpoints
from autoexp_tui.demo import log_lines
from autoexp_tui.demo.checkpoint import Checkpoint, RunFacts
from autoexp_tui.demo.corpus import VOCABULARY, Corpus, batch, read_corpus
from autoexp_tui.demo.errors import DemoError
from autoexp_tui.demo.model import (
    Shape,
    initial,
    loss_and_gradient,
    text_loss,
    views,
)
from autoexp_tui.demo.optimizer import Adam, clip

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from autoexp_tui.demo.schedule import Schedule

VALIDATION_STRIDE = 8
"""In mid-run every eighth held-out byte is enough; an evaluation takes them all."""


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """The arguments of a training run."""

    schedule: Schedule
    batch_size: int = 64
    context: int = 24
    hidden: int = 256
    seed: int = 0
    clip_grad: float = 1.0
    """Largest norm of the gradient; 0 never clips."""
    weight_init_scale: float = 1.0
    log_interval: int = 100
    save_interval: int = 1000
    """0 saves at the end only."""
    eval_interval: int = 1000
    """0 never evaluates."""
    save: Path | None = None
    load: Path | None = None
    crash_at: int | None = None
    """Iteration at which a run that has not been resumed raises."""
    resume: bool = True
    """Whether what lies in `save` is this run's own; if not, it is set aside."""

    @property
    def shape(self) -> Shape:
        """The model that these settings ask for."""
        return Shape(self.context, self.hidden, VOCABULARY)


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Where a run begins."""

    checkpoint: Checkpoint
    line: str
    resumed: bool
    """True when the run goes on from its own checkpoint: it is a restart."""


@dataclass(slots=True)
class Meter:
    """What one log interval has seen so far."""

    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, loss: float, seconds: float) -> None:
        """Count one iteration."""
        self.losses.append(loss)
        self.seconds += seconds

    def mean_loss(self) -> float:
        """The interval's mean loss; not finite when one of them is not."""
        return sum(self.losses) / len(self.losses)

    def mean_seconds(self) -> float:
        """Seconds an iteration took, evaluation and saving left out."""
        return self.seconds / len(self.losses)


def train(settings: TrainSettings, say: Callable[[str], None]) -> None:
    """Train to the last iteration, giving every log line to `say`.

    Raises DemoError for what the user can put right, and RuntimeError where `crash_at`
    asks for it.
    """
    corpus = read_corpus()
    _require_context(settings, corpus)
    start = find_start(settings, corpus)
    say(_text_line(corpus))
    say(_model_line(settings.shape))
    say(start.line)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        Trainer(settings, corpus, start, say).run()


def _text_line(corpus: Corpus) -> str:
    sizes = f"{len(corpus.train)} bytes to learn, {len(corpus.heldout)} held out"
    return f"text: {sizes}, digest {corpus.digest}"


def _model_line(shape: Shape) -> str:
    sizes = f"context {shape.context}, hidden {shape.hidden}"
    return f"model: {shape.parameters} parameters, {sizes}"


def _require_context(settings: TrainSettings, corpus: Corpus) -> None:
    shortest = min(len(corpus.train), len(corpus.heldout))
    if settings.context >= shortest:
        raise DemoError(f"--context {settings.context} exceeds a text of {shortest}")


def find_start(settings: TrainSettings, corpus: Corpus) -> Start:
    """The newest own checkpoint, else the one to load, else random weights.

    A run that was told to start afresh first sets aside what an earlier one saved.
    """
    if settings.save and not settings.resume:
        checkpoints.set_aside(settings.save)
    own = checkpoints.newest(settings.save) if settings.save else None
    if own is not None:
        return _start_from(own, settings, corpus, resumed=True)
    if settings.load is not None:
        path = checkpoints.locate(settings.load)
        return _start_from(path, settings, corpus, resumed=False)
    return Start(_random(settings, corpus), log_lines.STARTED_LINE, resumed=False)


def _start_from(
    path: Path, settings: TrainSettings, corpus: Corpus, *, resumed: bool
) -> Start:
    found = checkpoints.load(path)
    _require_fit(path, found.facts, settings)
    checkpoints.require_corpus(path, found.facts, corpus.digest)
    line = log_lines.loaded_line(found.facts.iteration, path)
    return Start(found, line, resumed)


def _require_fit(path: Path, facts: RunFacts, settings: TrainSettings) -> None:
    if facts.shape != settings.shape:
        raise DemoError(f"{path} holds {facts.shape}, not {settings.shape}")
    if facts.iteration > settings.schedule.train_iters:
        raise DemoError(
            f"{path} is at iteration {facts.iteration}, beyond --train-iters "
            f"{settings.schedule.train_iters}"
        )


def _random(settings: TrainSettings, corpus: Corpus) -> Checkpoint:
    shape = settings.shape
    parameters = initial(shape, settings.seed, settings.weight_init_scale)
    facts = RunFacts(
        iteration=0,
        samples=0,
        seed=settings.seed,
        lr=settings.schedule.peak,
        corpus=corpus.digest,
        shape=shape,
    )
    return Checkpoint(
        facts, parameters, np.zeros_like(parameters), np.zeros_like(parameters)
    )


class Trainer:
    """One run in progress."""

    def __init__(
        self,
        settings: TrainSettings,
        corpus: Corpus,
        start: Start,
        say: Callable[[str], None],
    ) -> None:
        """Take over the arrays of the start's checkpoint."""
        self._settings = settings
        self._corpus = corpus
        self._say = say
        self._crash_at = None if start.resumed else settings.crash_at
        self._iteration = start.checkpoint.facts.iteration
        self._samples = start.checkpoint.facts.samples
        self._flat = start.checkpoint.parameters
        self._gradient = np.empty_like(self._flat)
        self._weights = views(self._flat, settings.shape)
        self._slopes = views(self._gradient, settings.shape)
        self._adam = Adam(start.checkpoint.mean, start.checkpoint.square)
        self._meter = Meter()

    def run(self) -> None:
        """Train to the end; the last iteration is always saved."""
        if self._settings.save is not None:
            checkpoints.prepare(self._settings.save)
        while not self._finished():
            self._iterate()
        if not self._is_saved():
            self._save()
        self._say(f"training complete at iteration {self._iteration}")

    def _iterate(self) -> None:
        if self._iteration + 1 == self._crash_at:
            raise RuntimeError(f"asked to crash at iteration {self._crash_at}")
        before = time.perf_counter()
        loss, norm = self._step()
        self._meter.add(loss, time.perf_counter() - before)
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
        self._adam.update(self._flat, self._gradient, self._rate(), self._iteration)
        return loss, norm

    def _report(self, norm: float) -> None:
        settings = self._settings
        if self._due(settings.log_interval) or self._finished():
            self._log(norm)
        if self._due(settings.eval_interval):
            self._validate()
        if self._due(settings.save_interval) and not self._finished():
            self._save()

    def _due(self, interval: int) -> bool:
        return interval > 0 and self._iteration % interval == 0

    def _finished(self) -> bool:
        return self._iteration >= self._settings.schedule.train_iters

    def _rate(self) -> float:
        return self._settings.schedule.rate(self._iteration)

    def _log(self, norm: float) -> None:
        seconds = self._meter.mean_seconds()
        progress = log_lines.Progress(
            iteration=self._iteration,
            train_iters=self._settings.schedule.train_iters,
            samples=self._samples,
            seconds_per_iteration=seconds,
            tokens_per_second=self._settings.batch_size / seconds,
            rate=self._rate(),
            loss=self._meter.mean_loss(),
            grad_norm=norm,
        )
        self._meter = Meter()
        self._say(log_lines.progress_line(progress, time.time()))

    def _validate(self) -> None:
        loss = text_loss(
            self._weights,
            self._corpus.heldout,
            self._settings.context,
            VALIDATION_STRIDE,
        )
        self._say(log_lines.validation_line(self._iteration, loss))

    def _is_saved(self) -> bool:
        save = self._settings.save
        if save is None:
            return True
        name = checkpoints.iteration_name(self._iteration)
        return checkpoints.is_complete(save / name)

    def _save(self) -> None:
        if self._settings.save is None:
            return
        path = checkpoints.save(self._settings.save, self._checkpoint())
        self._say(log_lines.saved_line(self._iteration, path))

    def _checkpoint(self) -> Checkpoint:
        facts = RunFacts(
            iteration=self._iteration,
            samples=self._samples,
            seed=self._settings.seed,
            lr=self._settings.schedule.peak,
            corpus=self._corpus.digest,
            shape=self._settings.shape,
        )
        return Checkpoint(facts, self._flat, self._adam.mean, self._adam.square)
