"""autoexp-tree killed by SIGKILL at random moments, over and over, on the example; and
engines that are killed while an agent is called.

    python -m tests.e2e.tree_kills --kills 50
    python -m tests.e2e.tree_kills --call 60
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.campaign import run_command, wait_until, write_files

AGENT = """
import time
from pathlib import Path
from autoexp_tui.demo.packing import implement
def answer_call(role, prompt, directory):
    with open({ledger!r}, "a") as ledger:
        ledger.write(f"{{role}}\\n")
    time.sleep({seconds})
    return implement.answer_call(role, prompt, directory)
"""
"""An agent that notes that it was called, and then takes its time."""


@dataclass(frozen=True)
class Search:
    """A search of the example in a directory of its own, and who runs it now."""

    place: Path
    words: Sequence[str]
    """Of the command that begins it."""

    @property
    def session(self) -> Path:
        (found,) = (self.place / "outputs/.autoexp").glob("*/tree")
        return found.parent

    @property
    def is_begun(self) -> bool:
        return bool([*self.place.glob("outputs/.autoexp/*/tree/calls")])

    @property
    def has_stopped(self) -> bool:
        if not (manifest := self.session / "tree/manifest.json").exists():
            return False
        return bool(json.loads(manifest.read_text())["search"]["state"]["stop_reason"])

    def start(self) -> subprocess.Popen[bytes]:
        """An engine: of a new search, or of the one that is there."""
        words = ["--session", self.session.name] if self.is_begun else self.words
        return subprocess.Popen(
            [sys.executable, "-m", "autoexp_tui.cli.tree", *words, "--quiet", "--yes"],
            cwd=self.place,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def finish(self) -> Mapping[str, Any]:
        """To its end; what its last line says."""
        words = ["--session", self.session.name] if self.is_begun else self.words
        done = run_command(self.place, "tree", *words, "--quiet", "--json")
        assert done.returncode == 0, done.stderr
        found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def read_decisions(self) -> tuple[str, Mapping[str, Any]]:
        tree = self.session / "tree"
        search = json.loads((tree / "manifest.json").read_text())["search"]
        return (tree / "TREE_SUMMARY.md").read_text(), search

    def list_repeats(self) -> list[str]:
        """What began more than once: jobs, and processes of an attempt."""
        shown = run_command(self.place, "sessions", "show", self.session.name, "--json")
        assert shown.returncode == 0, shown.stderr
        jobs = json.loads(shown.stdout)["jobs"]
        found = [job["name"] for job in jobs if job["attempts"] > 1]
        begun = len([*self.session.glob("attempts/*/*/begin.*.json")])
        attempts = sum(job["attempts"] for job in jobs)
        return found + ([f"{begun} of {attempts} began"] if begun != attempts else [])


def begin(place: Path, *words: str) -> Search:
    place.mkdir(exist_ok=True)
    return Search(place, words)


def kill_through(search: Search, rng: random.Random, kills: int) -> int:
    """Let engines die at random moments, so many at most, then let it go on to its end;
    how many died."""
    died = 0
    for _ in range(kills):
        run = search.start()
        while not search.is_begun and run.poll() is None:
            time.sleep(0.05)
        time.sleep(rng.uniform(0.3, 4.0))
        run.kill()
        if run.wait() != -signal.SIGKILL:
            break  # it had come to its end
        died += 1
    search.finish()
    return died


def begin_slowly(place: Path, seconds: float, *words: str) -> Search:
    """A search whose agent notes each call in `ledger`, and takes so long; `words`:
    further overrides."""
    agent = AGENT.format(ledger=str(place / "ledger"), seconds=seconds)
    write_files(place, {"slow_agent.py": agent})
    return begin(
        place,
        "++agents.isolation=none",
        "++agents.script.command=[slow_agent:answer_call]",
        f"++agents.script.env={{PYTHONPATH:{place}}}",
        "++tree.ideas_per_node=1",
        *words,
    )


def call_through(place: Path, seconds: float) -> Sequence[str]:
    """Kill an engine while an agent is called, for so long; the calls that the agent
    noted by the end."""
    search, ledger = (
        begin_slowly(place, seconds, "++tree.max_depth=1"),
        place / "ledger",
    )
    run = search.start()
    wait_until(ledger.exists, "the call", 200)
    run.kill()
    run.wait()
    calls = ledger.read_text().split()
    assert search.finish()["evaluations"] == 1
    assert search.list_repeats() == []
    assert calls == ["implement"]
    return ledger.read_text().split()


def main() -> int:
    parser = argparse.ArgumentParser(prog="tree_kills", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--kills", type=int, default=0, help="of engines, in all")
    parser.add_argument("--call", type=float, default=0.0, help="seconds of a call")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place, problems = Path(name), list[str]()
        if args.call:
            calls = call_through(begin(place / "call").place, args.call)
            print(
                f"a call of {args.call:.0f} s was made {len(calls)} times", flush=True
            )
            problems += [f"calls: {calls}"] * (len(calls) != 1)
        if args.kills:
            problems += kill_many(place, args.kills, random.Random(args.seed))
    print("problems:" + ("\n  ".join(["", *problems]) or " none"))
    return int(bool(problems))


def kill_many(place: Path, kills: int, rng: random.Random) -> list[str]:
    """Searches with four workers until so many engines were killed; what went wrong."""
    words = ("--run", "r", "--max-parallel-evals", "4")
    plain, left, problems = begin(place / "plain", *words), kills, list[str]()
    told = plain.finish()
    while left > 0:
        search = begin(place / f"killed{left}", *words)
        died = kill_through(search, rng, left)
        left -= max(died, 1)
        problems += [f"{search.place.name}: {one}" for one in search.list_repeats()]
        if search.read_decisions() != plain.read_decisions():
            problems.append(f"{search.place.name} is not as undisturbed")
        print(f"{died} kills, {told['opened']} evaluations", flush=True)
    return problems


if __name__ == "__main__":
    sys.exit(main())
