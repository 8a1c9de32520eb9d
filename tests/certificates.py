"""Certificates for tests of TLS: an observer's own, and its clients'."""

from __future__ import annotations

import subprocess
from pathlib import Path


def certificates(folder: Path) -> Path:
    """`ours` and `theirs` as .pem and .key, each its own authority; the folder."""
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
    for name in ("ours", "theirs"):
        argv = ["openssl", "req", *kind, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}"]
        subprocess.run([*argv, "-addext", "subjectAltName=IP:127.0.0.1"], cwd=folder, check=True, capture_output=True)
    return folder
