"""The wire form of protocol buffers, read by hand.

Decides where each field of a message begins and ends, whatever the message is: the slow, complete way that the fast
readers are held against, and enough for messages too rare to be worth more. Refuses what is cut, what runs past its
end and the group types that nobody sends any more.
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10
_MASK = (1 << 64) - 1


class BadMessage(ValueError):
    """These bytes are no message."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place after it."""
    value = shift = 0
    for place in range(at, min(at + _LONGEST_VARINT, len(data))):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _MASK:
                raise BadMessage("a number of more than 64 bits")
            return value, place + 1
        shift += 7
    raise BadMessage("a number without end")


def signed(value: int) -> int:
    """An int64 as protocol buffers write it: two's complement, not zigzag."""
    return value - (1 << 64) if value >> 63 else value


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """(field number, wire type, value) in order; fixed-width values as their bytes."""
    at, end = 0, len(data)
    while at < end:
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if number == 0 or tag >> 32:
            raise BadMessage("a field with an impossible number")
        if kind == VARINT:
            value, at = varint(data, at)
            yield number, kind, value
            continue
        if kind == BYTES:
            size, at = varint(data, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise BadMessage("a field of an unknown type")
        if at + size > end:
            raise BadMessage("a field that runs past the end")
        yield number, kind, data[at : at + size]
        at += size


def text(data: bytes) -> str:
    """A string field; NUL is refused because no database takes it."""
    try:
        plain = data.decode()
    except UnicodeDecodeError as error:
        raise BadMessage("a text that is not UTF-8") from error
    if "\0" in plain:
        raise BadMessage("a text with a NUL")
    return plain
