"""How fast log text becomes metrics and events, beside naive per-line regexes.

    python -m tests.bench.bench_log_scan

A mebibyte amid a large log of each kind, as the engine reads a backlog: twelve rules,
and the progress of the run. CPU time of one core, best of several rounds;
prints rates and ratios, asserts nothing. `whole`: every point is read, as of a log
that grows slowly.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from tests.bench.measures import measure_cpu

from autoexp_tui.engine.telemetry import THINNING
from autoexp_tui.model.rules import LogEvent
from autoexp_tui.telemetry.log_rules import Scanner, compile_rule
from autoexp_tui.telemetry.metrics import MetricReader

SIZE = 1 << 20
LOG_SIZE = 1 << 30
"""Of the log that the mebibyte is a part of."""
ROUNDS = 9

NAIVE_METRICS = (
    re.compile(r"(?:iteration|step|iter)\D{0,3}\s*(\d+)"),
    re.compile(r"(?:lm )?loss'?[:= ]\s*(\S+)"),
    re.compile(r"(?:learning rate|lr|learning_rate'?)[:= ]\s*(\S+)"),
    re.compile(r"tok(?:en)?s?/s[:= ]\s*(\S+)"),
    re.compile(r"grad[_ ]norm'?[:= ]\s*(\S+)"),
)
PATTERNS = (
    r"successfully saved checkpoint from iteration\s+(?P<it>\d+) to (\S+)",
    *("FATAL", "Traceback", "CUDA out of memory", r"NCCL (?:WARN|ERROR)\b"),
    *("straggler detected", "Segmentation fault", "slurmstepd: error"),
    *("DUE TO TIME LIMIT", "RuntimeError", "ChildFailedError", "Killed"),
)
RULES = tuple(
    LogEvent(
        name=f"rule {number}",
        pattern=pattern,
        pattern_type="regex",
        extract_groups={"iteration": "it"} if "?P<it>" in pattern else {},
    )
    for number, pattern in enumerate(PATTERNS)
)


def filled(line: Callable[[int], str]) -> bytes:
    """A mebibyte of lines."""
    parts: list[str] = []
    length = 0
    while length < SIZE:
        parts.append(line(len(parts)))
        length += len(parts[-1])
    return "".join(parts).encode()


def chatter(rng: random.Random) -> Callable[[int], str]:
    """Lines of a start-up, of NCCL and of warnings: no metric anywhere."""
    shapes = (
        "[rank {0}] NCCL INFO Channel {1:02d}/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n",
        "2026-01-01 12:00:{1:02d},123 INFO datasets.py: building the index of shard "
        "{0} of 4096, cached at /scratch/project/data/shard_{0:05d}.idx\n",
        "WARNING:root:deprecated argument --use-foo, please use --bar instead\n",
        '  File "/usr/lib/python3/site-packages/torch/module.py", line {0}, in f\n',
        "time to initialize parameters after rank {0}: 0.{1} seconds\n",
    )
    return lambda _: rng.choice(shapes).format(rng.randint(0, 4095), rng.randint(0, 59))


def megatron(rng: random.Random) -> Callable[[int], str]:
    """A line of metrics a step, as Megatron writes it."""
    return lambda n: (
        f" [2026-01-01 12:00:{n % 60:02d}] iteration {n:8d}/   60000 |"
        f" consumed samples: {n * 1024:12d} |"
        " elapsed time per iteration (ms): 812.3 | tokens/s: 40020 |"
        " learning rate: 1.000000E-03 | global batch size:  1024 |"
        f" lm loss: {2 + rng.random():.6f}E+00 | loss scale: 1.0 | grad norm: 0.812 |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def mixed(rng: random.Random) -> Callable[[int], str]:
    """A metric line in twenty, and now and then an evaluation and a checkpoint."""
    talk, metrics = chatter(rng), megatron(rng)

    def line(n: int) -> str:
        if n % 2000 == 1999:
            return (
                f" validation loss at iteration {n} | lm loss value: 2.5E+00 |\n"
                f"  successfully saved checkpoint from iteration {n:7d} to /c/{n}\n"
            )
        return metrics(n) if n % 20 == 0 else talk(n)

    return line


def pairs(rng: random.Random) -> Callable[[int], str]:
    return lambda n: f"INFO step={n} loss={rng.random():.5f} lr=1e-3 tokens/s=40021\n"


LOGS = {
    "no metrics": chatter,
    "mixed": mixed,
    "Megatron": megatron,
    "key=value": pairs,
}


def naive(data: bytes, rules: tuple[re.Pattern[str], ...]) -> int:
    """Each regex on each line: how many matches, and how many metrics."""
    found = 0
    for line in data.decode("utf-8", "replace").splitlines():
        found += sum(rule.search(line) is not None for rule in rules)
        found += sum(regex.search(line) is not None for regex in NAIVE_METRICS)
    return found


def seconds(*works: Callable[[], object]) -> list[float]:
    """CPU seconds of each, the best of several rounds."""
    return [min(measure_cpu(work) for _ in range(ROUNDS)) for work in works]


def compare(name: str, data: bytes) -> None:
    scanner = Scanner([compile_rule(rule) for rule in RULES])
    regexes = tuple(re.compile(pattern) for pattern in PATTERNS)
    reader = MetricReader()
    every = LOG_SIZE // THINNING

    def ours(every: int) -> None:
        reader.read(data, 0, every)
        scanner.scan(data, 0)

    taken = seconds(lambda: naive(data, regexes), lambda: ours(every), lambda: ours(0))
    slow, fast, whole = (len(data) / 1e6 / one for one in taken)
    ratio = fast / slow
    print(f"{name:24}{slow:9.0f}{fast:9.0f}{ratio:8.1f}x{whole:9.0f} MB/s")


def main() -> None:
    print(
        f"{'12 rules and progress':24}{'naive':>9}{'ours':>9}{'ratio':>9}{'whole':>9}"
    )
    for name, make in LOGS.items():
        compare(name, filled(make(random.Random(0))))


if __name__ == "__main__":
    main()
