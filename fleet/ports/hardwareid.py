"""Serials and UUIDs of machines, as firmware, inventories and provisioners tell them.

Decides which of them say something, and which say the same. What a maker leaves where nobody entered anything
("Default string", a UUID of zeros) is on thousands of boards, so it is no identity: it confirms nothing and contradicts
nothing. Case, braces and space make no other identity, and neither does the order of the bytes in the first three
fields of a UUID, which differs between firmware, its versions and its readers. Refuses to guess beyond that. Pure.
"""

from __future__ import annotations

import uuid as uuids

_UNSET = frozenset(
    {
        "none", "null", "nil", "n/a", "na", "unknown", "undefined", "empty", "invalid", "default", "default string",
        "not specified", "unspecified", "not available", "not applicable", "not present", "not provided", "not set",
        "no asset information", "to be filled by o.e.m", "to be filled by oem", "to be filled", "o.e.m", "oem",
        "system serial number", "chassis serial number", "board serial number", "base board serial number",
        "serial number", "serial", "sernum", "enter serial", "0123456789", "01234567890123456789", "123456789",
        "1234567890", "12345678",
    }
)  # fmt: skip
_UNSET_UUIDS = frozenset(
    {
        "03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009",
        "12345678-1234-5678-90ab-cddeefaabbcc", "78563412-3412-7856-90ab-cddeefaabbcc",
    }
)  # fmt: skip


def serial(value: str | None) -> str:
    """As it is told, without needless space; empty where it says nothing."""
    plain = " ".join((value or "").split())
    signs = set(plain.casefold()) - set(" .-_:/")
    return "" if len(signs) < 2 or plain.casefold().rstrip(".") in _UNSET else plain


def uuid(value: str | None) -> str:
    """In its usual form, small letters; what is none as it is; empty where it says nothing."""
    plain = (value or "").strip().strip("{}").lower()
    if len(set(plain) - {"-"}) < 2:
        return ""
    try:
        plain = str(uuids.UUID(plain))
    except ValueError:
        return "" if plain in _UNSET else plain
    return "" if plain in _UNSET_UUIDS else plain


def same_serial(one: str, other: str) -> bool:
    """Do both say something, and the same?"""
    return bool(serial(one)) and serial(one).casefold() == serial(other).casefold()


def same_uuid(one: str, other: str) -> bool:
    """Do both say something, and the same, in whichever order of bytes?"""
    left, right = uuid(one), uuid(other)
    return bool(left) and right in (left, _swapped(left))


def _swapped(plain: str) -> str:
    try:
        return str(uuids.UUID(bytes_le=uuids.UUID(plain).bytes))
    except ValueError:
        return plain
