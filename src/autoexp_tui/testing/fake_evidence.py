"""A stand-in for looking at runs before they are ended: remembers who was looked at."""

from __future__ import annotations

from dataclasses import dataclass, field

from autoexp_tui.engine.ports import Kept, Parting


@dataclass(slots=True)
class FakeEvidence:
    """`ports.EvidenceSource` in memory."""

    partings: list[Parting] = field(default_factory=list)
    """Every run that was looked at, oldest first."""
    summary: str = "log tail, 1 process"
    problem: OSError | None = None
    """Raised by each look; None: looks succeed."""

    def capture(self, parting: Parting) -> Kept:
        """Keep nothing but the fact."""
        self.partings.append(parting)
        if self.problem is not None:
            raise self.problem
        return Kept(directory=parting.directory, summary=self.summary)
