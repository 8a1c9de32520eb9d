"""The page of the docs that shows ten reasons with what to do.

Decides which ten, and writes them from the catalogue with a sentence as a guard or a step says it, so that the page
cannot differ from what operators read: `manage.py why --reasons > docs/why.md`.
"""

from __future__ import annotations

from fleet.readmodels import reasons

TEN: dict[str, str] = {
    "cap_in_flight": "Rack r07: 2 of 2 in flight (gpu-r07-03, gpu-r07-11).",
    "cap_take_out": "Pool h100-train: 12 of 12 out of service (gpu-r01-02, gpu-r01-09, gpu-r02-04 and 9 more).",
    "floor": "Tenant vision: 30 of 32 nodes are in service, and 30 must stay (gpu-r03-01, gpu-r03-07 out).",
    "breaker": (
        "The breaker is open since 03:12 UTC: 31 of 100 nodes asked to be held within 10 min; 25 may. "
        "So many faults at once may be one fault, or a detector that errs."
    ),
    "freeze": "The freeze year-end lasts until 2027-01-02 09:00 Asia/Seoul.",
    "approval": "Waits for 2 people's approval (1 of 2 so far).",
    "pdb": "PDB serving/cache keeps serving/cache-2.",
    "gang_resting": (
        "Gang train/llm was interrupted at 03:02:10 UTC by WF-41 and starts again. "
        "This node waits until 03:32:10 UTC, so that the gang is not interrupted twice."
    ),
    "no_data": "No telemetry has come since the remediation.",
    "ticket": "Waits for T-12: Not back 30 min after the reset.",
}
"""Reason code -> a sentence that operators read."""

HEAD = """# Why does nothing happen?

Whatever waits in Muster says so: a reason code, a sentence with its numbers and names, since when, and until when it is
looked at again, or that a person must act. The page of the node and of the workflow show it with what clears it and
what you can do; the fleet page counts what waits for what. The same comes from:

| Where | How |
|---|---|
| a shell | `manage.py why NODE`, with `--json` for scripts |
| the API, one node | `GET /api/v1/nodes/NAME/why` |
| the API, one workflow | `GET /api/v1/workflows/ID/why` (`null` while it moves) |
| the API, the fleet | `GET /api/v1/why`: how many workflows wait for what |

`line` tells the place among those that wait for the same guard: the workflow that is furthest goes first (a drained
node serves nobody while it waits), then the oldest. A workflow that is due and that no worker takes up says that too.

## Ten sentences, and what to do
"""


def page() -> str:
    """The whole page as Markdown, in English."""
    parts = [HEAD]
    for code, sentence in TEN.items():
        reason = reasons.of(code)
        until = "a person acts" if reason.person else "the time that is shown with it"
        parts.append(
            f"### `{code}`\n\n> {sentence}\n\n{reason.text}\n\n"
            f"- It waits for {reason.who}, until {until}.\n- What clears it: {reason.clears}\n"
            f"- What you can do: {reason.do}\n"
        )
    parts.append("## Every reason code\n\n| Code | Meaning | What clears it | What you can do |\n|---|---|---|---|")
    rows = [
        f"| `{code}` | {reason.text} | {reason.clears} | {reason.do} |"
        for code, reason in sorted(reasons.CATALOGUE.items())
    ]
    return "\n".join([*parts, *rows]) + "\n"
