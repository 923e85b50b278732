"""The check that each line of a journal carries of its own bytes: a CRC-32 at its end.

A bit that flipped inside a text would read well; with its check the line does not, and
tells which bit it was. Lines of earlier versions have none. Knows nothing of records.
"""

from __future__ import annotations

import re
import zlib

_CRC = b',"crc":"'
_CHECK = re.compile(rb',"crc":"([0-9a-f]{8})"\}\n')
_DIGITS_START = -len(b'01234567"}\n')
_CRC_START = _DIGITS_START - len(_CRC)
"""Where the check begins in a line."""
_MENDABLE = 11_000
"""Bytes of a line in which CRC-32 tells any flipped bit from any two."""
_BOM = b"\xef\xbb\xbf"
_BY_OTHERS = "an editor or a copy rewrote the file"


class Rewritten(ValueError):
    """A line's bytes are not those that were written; the text says how."""


def with_check(line: bytes) -> bytes:
    """The line of a JSON object, newline included."""
    rest = line[:-1]
    return b'%s,"crc":"%08x"}\n' % (rest, zlib.crc32(rest))


def without_check(line: bytes) -> bytes:
    """The JSON object of a line.

    Raises:
        Rewritten: its bytes are not those that were written.
    """
    if line[-1:] != b"\n":
        line += b"\n"
    if line[_CRC_START:_DIGITS_START] != _CRC:
        return line
    rest = line[:_CRC_START]
    if line[_DIGITS_START:] != b'%08x"}\n' % zlib.crc32(rest):
        raise rewritten(line)
    return rest + b"}"


def rewritten(line: bytes) -> Rewritten:
    """How a line came to be another one than was written, as far as it shows."""
    if line.startswith(_BOM):
        return Rewritten(f"it begins with a byte-order mark: {_BY_OTHERS}")
    if line.endswith(b"\r\n"):
        return Rewritten(f"it ends in CR: {_BY_OTHERS}")
    return Rewritten("its bytes are not those that were written (CRC-32)")


def one_bit_back(line: bytes) -> bytes | None:
    """`line` as it was written, if all that is wrong with it is one flipped bit.

    Its check tells which one: no other single bit, nor any two, would fit. None: more
    is wrong, or less.
    """
    if line[-1:] != b"\n":
        line += b"\n"
    rest, check = line[:_CRC_START], line[_CRC_START:]
    right = b'%s%08x"}\n' % (_CRC, zlib.crc32(rest))
    if _one_bit_apart(check, right):
        return rest + right
    flipped = _fitting(rest, check)
    return None if flipped is None else flipped + check


def _one_bit_apart(one: bytes, other: bytes) -> bool:
    bits = int.from_bytes(one, "big") ^ int.from_bytes(other, "big")
    return len(one) == len(other) and bits.bit_count() == 1


def _fitting(rest: bytes, check: bytes) -> bytes | None:
    """`rest` with the bit flipped that makes it fit `check`."""
    match = _CHECK.fullmatch(check)
    if match is None or len(rest) > _MENDABLE:
        return None
    wanted, flipped = int(match[1], 16), bytearray(rest)
    for bit in range(8 * len(rest)):
        flipped[bit >> 3] ^= 1 << (bit & 7)
        if zlib.crc32(flipped) == wanted:
            return bytes(flipped)
        flipped[bit >> 3] ^= 1 << (bit & 7)
    return None
