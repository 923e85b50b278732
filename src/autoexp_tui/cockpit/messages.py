"""What screens and dialogs post upward, to the app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from autoexp_tui.model.snapshot import Snapshot


class SnapshotArrived(Message):
    """The engine published a snapshot; the newest takes the place of those before."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot

    def can_replace(self, message: Message) -> bool:
        """Whether this one may be left out when `message` follows it."""
        return isinstance(message, SnapshotArrived)


class CommandSent(Message):
    """Something was ordered: what the engine publishes next is shown at once."""


class CopyRequested(Message):
    """A text is to go to the clipboard."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class FolderRequested(Message):
    """A person wants to read what was kept of a job, in a directory."""

    def __init__(self, path: str, job: str) -> None:
        super().__init__()
        self.path = path
        self.job = job
