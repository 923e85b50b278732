"""Random sets of overrides, each composed by the fast road and by Hydra itself.

    python -m tests.config.compose_sets --sets 5000

Over the tree of `tests.planning.large_tree`: choices of groups, values of every kind
(also lists, dicts, nulls, texts that need quotes), `+`, `++`, `~`, missing values,
references that are relative, nested, conditional, to the environment, to nothing. Both
sides must give the same config or the same error, in the same words. It prints what
share took the fast road, which nothing can that does not compose."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.planning.overrides import CannotSpell, format_override
from autoexp_tui.planning.ports import CannotCompose
from tests.planning.large_tree import GROUPS, OPTIONS, write_tree

JOBS_OF_ONE: Final = 4
"""Jobs of each structure."""
TEXTS: Final = (
    *("a", "x y", "it's", "a,b", "{x}", "[1", "#c", "a=b", "~", "null", "1.0", "1e5"),
    *("true", "ü", "a:b", "\\", "tail\\", '"q"', "a/b.c", "???", "-", "+x", ".5"),
    *("nan", "${seed}x", "", " padded ", "a\nb", "./a", "..", "s3://b/c-1", "h:80"),
    *("a+b", "me@site", ".x", ".e5", "..5", "x%y", "a@:+%/"),
)

Road: TypeAlias = Literal["fast", "composed", "error"]
Value: TypeAlias = Callable[[], Any]
Set: TypeAlias = tuple[tuple[str, ...], Mapping[str, object]]
"""Overrides, and what is mounted."""


class Sets:
    """Makes sets of overrides; one seed gives the same ones."""

    def __init__(self, seed: int, paths: Sequence[str]) -> None:
        """`paths`: the keys of the config."""
        self._random = random.Random(seed)
        self._paths = paths
        self._made = 0

    def __iter__(self) -> Iterator[Set]:
        while True:
            yield from self._alike()

    def _alike(self) -> Iterator[Set]:
        """A few jobs that set the same keys."""
        heads = [*self._choices(), *self._settings()]
        for _ in range(JOBS_OF_ONE):
            try:
                texts = tuple(format_override(key, value()) for key, value in heads)
            except CannotSpell:
                continue
            self._made += 1
            stage = self._random.choice(["s1", "s2"])
            yield texts, {"index": self._made, "stage": stage}

    def _choices(self) -> Iterator[tuple[str, Value]]:
        for group in GROUPS:
            if self._random.random() < 0.3:
                option = self._random.choice(OPTIONS)
                yield group, partial(str, option)

    def _settings(self) -> Iterator[tuple[str, Value]]:
        for _ in range(self._random.randint(0, 7)):
            path = self._random.choice(self._paths)
            chance = self._random.random()
            if chance < 0.75:
                yield path, self._value()
            elif chance < 0.85:
                new = self._random.randint(0, 2)
                yield f"++{path.rpartition('.')[0] or 'top'}.new{new}", self._value()
            elif chance < 0.9:
                yield f"+fresh{self._random.randint(0, 2)}", self._value()
            elif chance < 0.95:
                yield f"~{path}", lambda: None
            else:
                yield f"++{path}", self._value()

    def _value(self) -> Value:
        """Makes the values of one key, one for each job."""
        chance = self._random.random()
        if chance < 0.7:
            return self._scalar
        if chance < 0.8:
            return self._list
        if chance < 0.84:
            made = {name: self._scalar() for name in self._random.sample("abc", 2)}
            return lambda: made
        text = self._reference()
        return lambda: text

    def _scalar(self) -> Any:
        chosen = self._random.choice
        kinds: tuple[Value, ...] = (
            lambda: self._random.randint(-5, 10**6), self._random.random,
            lambda: 1e-5 * self._random.random(), lambda: chosen(TEXTS),
            lambda: chosen([True, False]), lambda: None,
            lambda: 10.0 ** self._random.randint(-20, 20),
            lambda: float(self._random.randint(0, 9)),
        )  # fmt: skip
        return chosen(kinds)()

    def _list(self) -> list[Any]:
        return [self._scalar() for _ in range(self._random.randint(0, 3))]

    def _reference(self) -> str:
        one, other = self._random.choices(self._paths, k=2)
        return self._random.choice([
            f"${{{one}}}", f"pre-${{{one}}}-${{{other}}}", f"${{oc.select:{one},3}}",
            "${oc.eval:'${train.steps}*2'}", "${oc.eval:${train.steps}*2}",
            "${table.${size}}", "${table[${size}]}", "${model}", "${data.mix.0.weight}",
            "${data.mix[0]}", "${ax.down_to:${train.steps},2}",
            f"${{ax.join:-,${{{one}}},${{size}}}}",
            f"${{ax.lower:${{{one}}}}}-${{ax.pad:${{seed}},3}}",
            "${ax.str:${data.mix}}", "${.x}", "${..seed}", "${oc.env:AUTOEXP_NOBODY,x}",
            "${oc.env:AUTOEXP_NOBODY}", f"${{no.such{self._random.randint(0, 3)}}}",
        ])  # fmt: skip


def compared(composer: HydraComposer, one: Set) -> tuple[Road, str]:
    """Compose a set both ways: the road, and the difference; empty: none."""
    texts, mounts = one
    view: Any = None
    try:
        view = composer.compose(texts, mounts)
        ours: object = view.to_dict()
    except CannotCompose as error:
        ours = str(error)
    try:
        hydras: object = composer.compose_by_hydra(texts, mounts).to_dict()
    except CannotCompose as error:
        hydras = str(error)
    same = repr(ours) == repr(hydras)
    difference = "" if same else f"{texts}\n  ours  {ours}\n  hydra {hydras}"
    if isinstance(hydras, str):
        return "error", difference
    fast = view and view._template is not None and view._config is None
    return "fast" if fast else "composed", difference


def run(seed: int, count: int, root: Path) -> tuple[Counter[Road], list[str]]:
    """Compare so many sets of one seed; the roads taken, and the differences."""
    composer = HydraComposer("exp", write_tree(root), cwd="/cwd")
    # A name that Hydra cannot take anew, and the command that reads half the config.
    apart = ("project.name", "backend.command")
    paths = [p for p in composer.base().leaf_paths() if not p.startswith(apart)]
    roads: Counter[Road] = Counter()
    differences: list[str] = []
    for _, one in zip(range(count), Sets(seed, paths), strict=False):
        road, difference = compared(composer, one)
        roads[road] += 1
        differences += [difference] if difference else []
    return roads, differences


def main() -> int:
    """Compare, and print; 1 when anything differs."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--sets", type=int, default=5000)
    made.add_argument("--seed", type=int, default=0)
    given = made.parse_args()
    failed = 0
    for seed in range(given.seed, given.seed + -(-given.sets // 250)):
        with tempfile.TemporaryDirectory() as place:
            roads, differences = run(seed, 250, Path(place))
        print(f"seed {seed}: {dict(roads)}", *differences[:5], sep="\n", flush=True)
        failed |= bool(differences)
    return failed


if __name__ == "__main__":
    sys.exit(main())
