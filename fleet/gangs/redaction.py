"""Secrets out of what a job wrote: its log is kept and shown to more people than the job was.

Decides by the shapes that credentials have: assignments to names that say so, headers, keys of well-known makers, user
and password in addresses, private keys. Refuses to promise that nothing is left: a secret that looks like a word stays.
"""

from __future__ import annotations

import re

GONE = "[redacted]"
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_HEADER = re.compile(r"\b((?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_ADDRESS = re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,256}:)[^\s/@]{1,256}(@)", re.IGNORECASE)
_NAMED = re.compile(
    r"""((?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential)
        [A-Za-z0-9_.-]{0,32}["']?\s{0,3}(?:=|:|=>)\s{0,3}["']?)
        (?!\s)[^\s"',;}\]]{4,}""",
    re.IGNORECASE | re.VERBOSE,
)
_MADE = re.compile(
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bhf_[A-Za-z0-9]{20,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}"
    r"|\bsk-[A-Za-z0-9_-]{20,}|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bglpat-[\w-]{15,}|\bnvapi-[\w-]{20,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
)


def redact(text: str) -> str:
    """The text with each secret that it knows by its shape replaced."""
    text = _KEY.sub(GONE, text)
    text = _HEADER.sub(rf"\g<1>{GONE}", text)
    text = _ADDRESS.sub(rf"\g<1>{GONE}\g<2>", text)
    text = _NAMED.sub(rf"\g<1>{GONE}", text)
    return _MADE.sub(GONE, text)
