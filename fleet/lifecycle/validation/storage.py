"""The storage probe: its script, and what it prints.

Decides that each mount is announced before it is touched, so that a mount on which the probe hangs is named by the
line that is missing behind it. Refuses a log without the closing line unless it names such a mount.
"""

from __future__ import annotations

import re

from fleet.lifecycle.validation.findings import Finding, Report, Status

READ_ONLY = ":ro"
SCRIPT = r"""
size=${MIB:-256}
rate() { awk -v n="$1" -v a="$2" -v b="$3" 'BEGIN { d = (b - a) / 1e9; printf "%.1f", n / (d > 1e-6 ? d : 1e-6) }'; }
for entry in "$@"; do
  path=${entry%:ro}
  echo "muster-storage begin path=$path"
  if ! timeout 20 stat -f "$path" >/dev/null; then echo "muster-storage fail path=$path reason=stat"; continue; fi
  if [ "$entry" != "$path" ]; then echo "muster-storage end path=$path"; continue; fi
  file="$path/.muster-probe-$HOSTNAME"
  a=$(date +%s%N)
  if ! timeout 120 dd if=/dev/zero of="$file" bs=1M count="$size" conv=fsync 2>/dev/null; then
    rm -f "$file"; echo "muster-storage fail path=$path reason=write"; continue
  fi
  b=$(date +%s%N)
  # Past the page cache where the file system can do that.
  timeout 120 dd if="$file" of=/dev/null bs=1M iflag=direct 2>/dev/null ||
    timeout 120 dd if="$file" of=/dev/null bs=1M 2>/dev/null
  ok=$?
  c=$(date +%s%N)
  rm -f "$file"
  if [ "$ok" != 0 ]; then echo "muster-storage fail path=$path reason=read"; continue; fi
  echo "muster-storage end path=$path write_mib_s=$(rate "$size" "$a" "$b") read_mib_s=$(rate "$size" "$b" "$c")"
done
echo "muster-storage done"
"""
_LINE = re.compile(r"^muster-storage (begin|end|fail|done)((?: [a-z_]{1,20}=\S{1,300}){0,6}) *$")
_WHY = {"stat": "does not answer", "write": "cannot be written", "read": "cannot be read back"}
_MOST_MOUNTS = 100


def parse(log: str) -> Report:
    """Per mount `mount` with its status, and where it is writable the findings `write` and `read` in MiB/s."""
    begun: dict[str, bool] = {}  # mount -> its end was told
    findings: list[Finding] = []
    done = False
    for line in log.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        told = dict(part.split("=", 1) for part in match[2].split())
        path = told.get("path", "")
        if match[1] == "done":
            done = True
        elif match[1] == "begin" and len(begun) < _MOST_MOUNTS:
            begun.setdefault(path, False)
        elif path in begun and not begun[path]:
            begun[path] = True
            findings += _told(match[1], path, told)
    hung = [path for path, ended in begun.items() if not ended]
    findings += [Finding("mount", Status.FAIL, path, text="did not answer before the test ended") for path in hung]
    if hung or (done and findings):
        return Report(tuple(findings))
    return Report(tuple(findings), "the storage probe's result is cut off" if begun else "no mount was probed")


def _told(kind: str, path: str, told: dict[str, str]) -> list[Finding]:
    if kind == "fail":
        why = _WHY.get(told.get("reason", ""), "failed")
        return [Finding("mount", Status.FAIL, path, text=why)]
    found = [Finding("mount", Status.PASS, path, text="answers")]
    for name in ("write", "read"):
        value = _rate(told.get(f"{name}_mib_s", ""))
        if value is not None:
            found.append(Finding(name, Status.PASS, path, value, "MiB/s"))
    return found


def _rate(text: str) -> float | None:
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text):
        return None
    return float(text)
