"""How fast logs become metrics and matches, beside naive per-line regexes.

Run `python -m tests.bench.bench_log_scan`. One mebibyte of each kind of log, as the
engine reads them; CPU time, best of several; prints rates and ratios, asserts nothing.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator

from autoexp_tui.core.specs import LogEvent
from autoexp_tui.monitor.log_rules import compile_rules, scan
from autoexp_tui.monitor.metrics import MetricReader

SIZE = 1 << 20
ROUNDS = 9
EVERY = SIZE // 64
"""Bytes between two points where the engine works off a backlog."""

NAIVE_METRICS = tuple(
    re.compile(pattern)
    for pattern in (
        r"iteration\s+(\d+)/\s*(\d+)",
        r"lm loss:\s*(\S+)",
        r"learning rate:\s*(\S+)",
        r"tokens/s:\s*(\S+)",
        r"grad norm:\s*(\S+)",
    )
)
RULES = (
    LogEvent(
        name="saved",
        pattern=r"successfully saved checkpoint from iteration\s+(?P<it>\d+) to (\S+)",
        pattern_type="regex",
        extract_groups={"checkpoint_iteration": "it"},
    ),
    LogEvent(name="fatal", pattern="FATAL|Traceback", pattern_type="regex"),
    LogEvent(name="oom", pattern="CUDA out of memory"),
    LogEvent(name="nccl", pattern=r"NCCL (?:WARN|ERROR)\b", pattern_type="regex"),
    LogEvent(name="slow", pattern="straggler detected"),
)
NAIVE_RULES = tuple(re.compile(rule.pattern) for rule in RULES)


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


def metric_line(rng: random.Random) -> Callable[[int], str]:
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
    """A metric line in twenty."""
    talk, metrics = chatter(rng), metric_line(rng)
    return lambda n: metrics(n) if n % 20 == 0 else talk(n)


def naive_metrics(data: bytes) -> list[tuple[int, list[float]]]:
    """Each regex on each line."""
    found = []
    for line in data.decode("utf-8", "replace").splitlines():
        matches = [regex.search(line) for regex in NAIVE_METRICS]
        if matches[0]:
            values = [float(match[1]) for match in matches[1:] if match]
            found.append((int(matches[0][1]), values))
    return found


def naive_matches(data: bytes) -> list[str]:
    """Each regex on each line."""
    lines = data.decode("utf-8", "replace").splitlines()
    return [line for line in lines if any(rule.search(line) for rule in NAIVE_RULES)]


def rate(work: Callable[[], object]) -> float:
    """Megabytes a second of CPU time, the best of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return SIZE / 1e6 / best


def rows() -> Iterator[tuple[str, float, float]]:
    """(what, naive rate, ours)."""
    rules = compile_rules(RULES)
    for name, make in (
        ("no metrics", chatter),
        ("mixed", mixed),
        ("dense", metric_line),
    ):
        data = filled(make(random.Random(0)))
        naive = rate(lambda data=data: naive_metrics(data))  # type: ignore[misc]
        yield (
            f"metrics, {name}",
            naive,
            rate(lambda data=data: MetricReader().feed(data)),  # type: ignore[misc]
        )
        yield (
            f"metrics, {name}, backlog",
            naive,
            rate(lambda data=data: MetricReader().feed(data, 0, EVERY)),  # type: ignore[misc]
        )
        yield (
            f"{len(rules)} rules, {name}",
            rate(lambda data=data: naive_matches(data)),  # type: ignore[misc]
            rate(lambda data=data: scan(rules, data, 0)),  # type: ignore[misc]
        )


def main() -> None:
    """Print the table."""
    print(f"{'':28}{'naive':>10}{'ours':>10}{'ratio':>8}")
    for name, naive, ours in rows():
        print(f"{name:28}{naive:7.0f} MB/s{ours:5.0f} MB/s{ours / naive:7.1f}x")


if __name__ == "__main__":
    main()
