"""Scalars of TensorBoard's event files, by the standard library alone.

A file is a sequence of TFRecords (`tensorflow/core/lib/io/record_writer.h`): length
(u64, little-endian), masked CRC-32C of the length, that many bytes, their CRC. Each
holds a protobuf `Event` (`tensorflow/core/util/event.proto`): step = 2, summary = 5;
`Summary` has values = 1, each with tag = 1 and simple_value = 2 or tensor = 8. The CRCs
are not looked at: a length that no record has tells that a file is damaged, or none."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final

_HEAD: Final = 12
"""Bytes before the content of a record; four stand behind it."""
_MOST_BYTES: Final = 1 << 20
"""Of a record that is read: images and the like are passed over."""
_LONGEST: Final = 1 << 32
"""Bytes of a record: what says that it has more is none."""
_FORMATS: Final = {1: "<f", 2: "<d", 3: "<i", 9: "<q"}
"""By the number of a tensor's type."""
_LISTS: Final = {5: "<f", 6: "<d"}
"""Fields of a tensor that list floats and doubles."""


class RecordSplitter:
    """Parts the bytes of a file, as they come, into the contents of its records."""

    def __init__(self) -> None:
        self._rest = b""
        self._skipped = 0
        """Bytes of a large record that are still to be passed over."""
        self.is_torn = False
        """Some place is no record: nothing is read from there on."""

    @property
    def unread(self) -> int:
        """Bytes behind the last whole record; 0: what came so far ends with one."""
        return len(self._rest) + self._skipped

    def split(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """(start, content) of each whole record; a start is counted from the first of
        the new bytes, and below 0 where the record began before them."""
        if self.is_torn:
            return
        begin = -len(self._rest)
        data, at = self._rest + data, 0
        while not self.is_torn:
            passed = min(self._skipped, len(data) - at)
            self._skipped, at = self._skipped - passed, at + passed
            if len(data) - at < _HEAD:
                break
            (size,) = struct.unpack_from("<Q", data, at)
            end, self.is_torn = at + _HEAD + size + 4, size > _LONGEST
            if not self.is_torn and size > _MOST_BYTES:
                self._skipped = size + _HEAD + 4
            elif self.is_torn or end > len(data):
                break
            else:
                yield begin + at, data[at + _HEAD : end - 4]
                at = end
        self._rest = data[at:]


def parse_event(content: bytes) -> Mapping[str, object] | None:
    """The scalars of an event by their tags, and its `step`; None: it has none."""
    try:
        fields = list(_read_fields(content))
        scalars = dict(_read_scalars(fields))
    except (ValueError, IndexError, struct.error):
        return None
    step = next((value for number, value in fields if number == 2), 0)
    if isinstance(step, int) and step >= 1 << 63:
        step -= 1 << 64
    return {**scalars, "step": step} if scalars else None


_Field = tuple[int, int | bytes]


def _read_scalars(event: list[_Field]) -> Iterator[tuple[str, float]]:
    for summary in _list_messages(event, 5):
        for value in _list_messages(_read_fields(summary), 1):
            fields = list(_read_fields(value))
            tag = b"".join(_list_messages(fields, 1)).decode("utf-8", "replace")
            simple = next(_list_messages(fields, 2), None)
            if simple is not None:
                yield tag, struct.unpack("<f", simple)[0]
                continue
            for tensor in _list_messages(fields, 8):
                number = _read_tensor(list(_read_fields(tensor)))
                if number is not None:
                    yield tag, number


def _read_tensor(fields: list[_Field]) -> float | None:
    """The number of a tensor that holds just one."""
    kind = next((value for number, value in fields if number == 1), 0)
    form = _FORMATS.get(kind) if isinstance(kind, int) else None
    for number, value in fields:
        form_here = form if number == 4 else _LISTS.get(number)
        if form_here and isinstance(value, bytes):
            is_one = len(value) == struct.calcsize(form_here)
            return float(struct.unpack(form_here, value)[0]) if is_one else None
    return None


def _list_messages(
    fields: Iterator[_Field] | list[_Field], wanted: int
) -> Iterator[bytes]:
    return (v for number, v in fields if number == wanted and isinstance(v, bytes))


def _read_fields(data: bytes) -> Iterator[_Field]:
    """(number, value) of each field; raises ValueError or IndexError where torn."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        wire = key & 7
        if wire == 0:
            number, at = _read_varint(data, at)
            yield key >> 3, number
            continue
        size = {1: 8, 5: 4}.get(wire, 0)
        if wire == 2:
            size, at = _read_varint(data, at)
        if wire not in (1, 2, 5) or at + size > len(data):
            raise ValueError("no protobuf message")
        yield key >> 3, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        number, at = number | (byte & 127) << shift, at + 1
        if byte < 128:
            break
    return number, at
