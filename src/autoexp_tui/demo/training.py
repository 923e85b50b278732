"""The training loop: from arguments and a text to checkpoints and log lines.

A run that finds its own checkpoint goes on from there, bit for bit. The text is the
source of the Python standard library; another release's has another digest."""

from __future__ import annotations

import hashlib
import math
import sysconfig
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autoexp_tui.demo import checkpoints
from autoexp_tui.demo.checkpoints import Checkpoint, DemoError, RunFacts
from autoexp_tui.demo.model import (
    Schedule,
    Shape,
    accumulate_gradient,
    clip,
    initialize_weights,
    loss_and_gradient,
    measure_memory,
    split_weights,
    text_loss,
    update_by_adam,
)

say = partial(print, flush=True)
"""A line that waits in a buffer is one that a supervisor cannot read."""
VALIDATION_STRIDE = 8
"""In mid-run every eighth held-out byte is enough; an evaluation takes them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings(Schedule):
    """The arguments of a training run."""

    batch_size: int
    micro_batch: int
    """Contexts of one pass; 0: all of the batch. The gradient is that of the batch."""
    memory_mb: int
    """That arrays may take, in 10**6 bytes; 0: any."""
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

    @property
    def rows(self) -> int:
        """Contexts of one pass."""
        return min(self.micro_batch or self.batch_size, self.batch_size)


def train(settings: TrainSettings) -> None:
    """Train to the last iteration; raises DemoError."""
    corpus, shape = read_corpus(), settings.shape
    shortest = min(len(corpus.train), len(corpus.heldout))
    if settings.warmup_iters + settings.decay_iters > settings.train_iters:
        raise DemoError("--warmup-iters and --decay-iters exceed --train-iters")
    if settings.context >= shortest:
        raise DemoError(f"--context {settings.context} exceeds a text of {shortest}")
    if settings.save:
        checkpoints.prepare(settings.save, anew=not settings.resume)
    require_memory(settings)
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
        run(replace(settings, crash_at=crash_at), corpus, start)


def require_memory(settings: TrainSettings) -> None:
    """Raise MemoryError, as an allocator would, where a run needs more than it may."""
    copies = 4 if settings.rows == settings.batch_size else 5
    kept, passing = measure_memory(settings.shape, settings.rows, copies)
    if settings.memory_mb and kept + passing > settings.memory_mb * 10**6:
        raise MemoryError(
            f"tried to allocate {passing / 1e6:.2f} MB for a pass over {settings.rows} "
            f"contexts, beside {kept / 1e6:.2f} MB for the model; the limit is "
            f"{settings.memory_mb} MB"
        )


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


def run(settings: TrainSettings, corpus: Corpus, start: Checkpoint) -> None:
    """Train from a checkpoint, whose arrays are changed, to the last iteration, which
    is always saved."""
    first, samples = start.facts.iteration + 1, start.facts.samples
    flat, gradient = start.parameters, np.empty_like(start.parameters)
    weights = split_weights(flat, settings.shape)
    slopes = split_weights(gradient, settings.shape)
    is_whole = settings.rows == settings.batch_size
    part = gradient if is_whole else np.empty_like(gradient)
    losses: list[float] = []
    seconds = 0.0  # of the log interval, as losses; without evaluation and saving
    for iteration in range(first, settings.train_iters + 1):
        if iteration == settings.crash_at:
            raise RuntimeError(f"asked to crash at iteration {iteration}")
        before = time.perf_counter()
        one = batch(corpus.train, settings, iteration)
        if is_whole:
            losses.append(loss_and_gradient(weights, slopes, *one))
        else:
            shape, rows = settings.shape, settings.rows
            loss = accumulate_gradient(weights, gradient, part, one, shape, rows)
            losses.append(loss)
        norm = clip(gradient, settings.clip_grad)
        rate = settings.rate(iteration)
        update_by_adam(flat, gradient, (start.mean, start.square), rate, iteration)
        samples += settings.batch_size
        seconds += time.perf_counter() - before
        is_last = iteration == settings.train_iters
        if is_due(iteration, settings.log_interval) or is_last:
            # In the form of Megatron-LM's log lines.
            speed = settings.batch_size * len(losses) / seconds
            fields = (
                f" [{time.strftime('%Y-%m-%d %H:%M:%S')}] iteration "
                f"{iteration:8d}/{settings.train_iters:8d}",
                f"lm loss: {format_number(sum(losses) / len(losses), '.6E')}",
                f"learning rate: {format_number(rate, '.3E')}",
                f"tokens/s: {speed:.0f}",
                f"grad norm: {format_number(norm, '.3f')}",
                f"consumed samples: {samples}",
                f"elapsed time per iteration (ms): {seconds / len(losses) * 1e3:.1f} |",
            )
            say(" | ".join(fields))
            losses, seconds = [], 0.0
        if is_due(iteration, settings.eval_interval):
            # `lm loss value:`: no pattern takes it for the training loss.
            held_out = text_loss(
                weights, corpus.heldout, settings.context, VALIDATION_STRIDE
            )
            say(
                f" validation loss at iteration {iteration} | "
                f"lm loss value: {format_number(held_out, '.6E')} |"
            )
        is_due_now = is_due(iteration, settings.save_interval) and not is_last
        if settings.save and is_due_now:
            save(settings.save, start, iteration, samples)
    last = settings.train_iters
    name = checkpoints.name_iteration(last)
    if settings.save and not checkpoints.is_complete(settings.save / name):
        save(settings.save, start, last, samples)
    say(f"training complete at iteration {last}")


def save(directory: Path, state: Checkpoint, iteration: int, samples: int) -> None:
    """Save the state of an iteration."""
    facts = replace(state.facts, iteration=iteration, samples=samples)
    path = checkpoints.save(directory, replace(state, facts=facts))
    say(f"successfully saved checkpoint from iteration {iteration:7d} to {path}")


def is_due(iteration: int, interval: int) -> bool:
    """Whether what is done every `interval` (0: never) is done now."""
    return interval > 0 and iteration % interval == 0


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


def batch(text: Bytes, settings: TrainSettings, iteration: int) -> tuple[Bytes, Bytes]:
    """The contexts (size, context) and next bytes (size,) of one iteration.

    A function of its arguments alone, so that a resumed run sees what it would have
    seen. The text must be longer than the context.
    """
    context = settings.context
    # The iteration is the highest counter word: streams of neighbours never overlap.
    stream = np.random.Philox(key=settings.seed, counter=[0, 0, 0, iteration])
    offsets = np.asarray(stream.random_raw(settings.batch_size))
    offsets %= np.uint64(len(text) - context)
    windows = text[offsets.astype(np.int64)[:, None] + np.arange(context + 1)]
    return windows[:, :context], windows[:, context]
