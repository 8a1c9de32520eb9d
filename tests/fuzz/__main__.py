"""`python -m tests.fuzz NAME|all [--seconds N]`: harnesses under atheris, each in a process of its own.

A finding's input lies in `var/fuzz/NAME/crash-*`; run it again with `--input FILE`. What was found stays as a seed.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

MOST_MEMORY = 2 << 30
LONGEST = {"snappy": 4096, "gzip": 4096}


def _all(seconds: int, var: Path) -> int:
    from tests.fuzz.harnesses import HARNESSES

    failed: list[str] = []
    for name in HARNESSES:
        ran = subprocess.run(
            [sys.executable, "-m", "tests.fuzz", name, "--seconds", str(seconds)],
            capture_output=True,
            text=True,
            check=False,
        )
        said = ran.stdout + ran.stderr
        count = re.search(r"number_of_executed_units:\s*(\d+)", said)
        peak = re.search(r"peak_rss_mb:\s*(\d+)", said)
        cover = re.findall(r"cov: (\d+)", said)
        verdict = "found nothing" if ran.returncode == 0 else f"FAILED ({var / 'fuzz' / name})"
        print(f"{name:16} {count[1] if count else '?':>10} executions, {cover[-1] if cover else '?':>5} edges, "
              f"{peak[1] if peak else '?':>5} MiB: {verdict}", flush=True)  # fmt: skip
        if ran.returncode:
            failed.append(name)
            print("\n".join(said.splitlines()[-25:]), flush=True)
    return 1 if failed else 0


def _one(name: str, seconds: int, given: str, var: Path) -> None:
    import atheris

    with atheris.instrument_imports(include=["fleet"]):
        import django

        django.setup()
        from tests.fuzz.harnesses import HARNESSES
    from tests.fuzz.seeds import seeds

    harness = HARNESSES[name]
    if given:
        harness(Path(given).read_bytes())
        return
    corpus = var / "fuzz" / name
    (corpus / "corpus").mkdir(parents=True, exist_ok=True)
    started = seeds()[name]
    for number, seed in enumerate(started):
        (corpus / "corpus" / f"seed-{number:03}").write_bytes(seed)
    resource.setrlimit(resource.RLIMIT_AS, (2 * MOST_MEMORY, 2 * MOST_MEMORY))
    longest = LONGEST.get(name, 16_384)
    options = [f"-max_total_time={seconds}", f"-max_len={longest}", f"-rss_limit_mb={MOST_MEMORY >> 20}", "-timeout=10",
               f"-artifact_prefix={corpus}/", "-print_final_stats=1", "-verbosity=1"]  # fmt: skip
    atheris.Setup(["fuzz", *options, str(corpus / "corpus")], harness)
    atheris.Fuzz()


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("name")
    reader.add_argument("--seconds", type=int, default=60)
    reader.add_argument("--input", default="")
    given = reader.parse_args()
    var = Path(os.environ.get("MUSTER_VAR", "var")).absolute()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleet.settings")
    if given.name != "all":
        _one(given.name, given.seconds, given.input, var)
        return 0
    import django

    django.setup()
    return _all(given.seconds, var)


if __name__ == "__main__":
    sys.exit(main())
