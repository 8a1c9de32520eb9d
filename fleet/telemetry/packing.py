"""Pushed bodies, unpacked within bounds.

Decides how large a body may become before a byte of it is unpacked: snappy states its size up front, gzip is cut off.
Refuses more, and what is not packed as it says.
"""

from __future__ import annotations

import zlib

import cramjam

MAX_PLAIN = 32 * 1024 * 1024
MAX_MEMBERS = 100


class TooLarge(ValueError):
    """Unpacked, it would be more than is taken."""


class NotPacked(ValueError):
    """It is not packed the way it says."""


def snappy(body: bytes, limit: int = MAX_PLAIN) -> bytes:
    """One block of snappy, as remote write and Loki use it."""
    try:
        size = cramjam.snappy.decompress_raw_len(body)
    except Exception as error:
        raise NotPacked("The body is not snappy.") from error
    if size > limit:
        raise TooLarge(f"An unpacked body may have {limit} bytes.")
    try:
        return bytes(cramjam.snappy.decompress_raw(body))
    except Exception as error:
        raise NotPacked("The body is not snappy.") from error


def gzip(body: bytes, limit: int = MAX_PLAIN) -> bytes:
    """One member or several, one after another; all of it must be there."""
    parts: list[bytes] = []
    size = 0
    rest = body
    while rest.strip(b"\0") or not parts:  # zeros at the end are padding
        if len(parts) == MAX_MEMBERS:
            raise TooLarge(f"A body may have {MAX_MEMBERS} members of gzip.")
        unpacker = zlib.decompressobj(wbits=31)
        try:
            part = unpacker.decompress(rest, limit - size + 1)
        except zlib.error as error:
            raise NotPacked("The body is not gzip, though it says so.") from error
        size += len(part)
        if size > limit:
            raise TooLarge(f"An unpacked body may have {limit} bytes.")
        if not unpacker.eof:
            raise NotPacked("The body is gzip that was cut.")
        parts.append(part)
        rest = unpacker.unused_data
    return b"".join(parts)
