"""Commands whose answers are written down: no process is started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from autoexp_tui.executors.slurm.commands import Ran

CONFIG = """\
ClusterName             = elwe
MaxArraySize            = 1001
MinJobAge               = 300 sec
SLURM_VERSION           = 23.11.4
AccountingStorageType   = accounting_storage/slurmdbd
"""
QUEUE_HEADING = (
    "autoexp|JOBID|JOBID|STATE|REASON|NODELIST|PARTITION|START_TIME|END_TIME"
    "|SUBMIT_TIME|NAME|end\n"
)
ACCOUNT_HEADING = "JobID|JobIDRaw|State|ExitCode|Submit|Start|End|NodeList|JobName\n"

Answer = Ran | Callable[[Sequence[str]], Ran]


def says(stdout: str = "", *, stderr: str = "", status: int | None = 0) -> Ran:
    """An answer; its words are filled in when it is given."""
    return Ran(arguments=("?",), status=status, stdout=stdout, stderr=stderr)


SILENT = says(status=None)
"""Of a command that did not return in time."""


def fails(stderr: str) -> Ran:
    return says(stderr=f"{stderr}\n", status=1)


def queue_answer(rows: str) -> str:
    """squeue's answer with these rows, given without their marks and ends."""
    answer = QUEUE_HEADING
    for row in rows.splitlines():
        *before, submitted, name = row.split("|", 8)
        answer += "|".join(("autoexp", *before, "N/A", submitted, name, "end")) + "\n"
    return answer


def queue(rows: str) -> Ran:
    return says(queue_answer(rows))


class ScriptedCommands:
    """`Commands` that answer by the program's name."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.calls: Counter[str] = Counter()
        self.ran: list[tuple[str, ...]] = []
        self.answers = dict(answers)

    def run(self, arguments: Sequence[str], timeout: float) -> Ran:
        words = tuple(arguments)
        self.calls[words[0]] += 1
        self.ran.append(words)
        answer = self.answers[words[0]]
        ran = answer if isinstance(answer, Ran) else answer(words)
        return replace(ran, arguments=words)

    def ran_by(self, program: str) -> list[tuple[str, ...]]:
        return [words for words in self.ran if words[0] == program]
