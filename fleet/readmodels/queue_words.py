"""What a system's number of fairness means, in words.

Decides one sentence per system. Refuses to compare the numbers of two systems: each measures another thing.
"""

from __future__ import annotations

from django.utils.translation import gettext as _


def share_words(system: str, share: float | None, told: str) -> str:
    """`told` is what the reader of that system wrote beside the number."""
    if share is None:
        return told
    number = f"{share:,.3g}" if share < 1e6 else f"{share:,.0f}"
    match system:
        case "kueue":
            if not share:
                return _("0: under its nominal quota")
            return _("weighted share %(n)s: borrows above its nominal quota; the highest is preempted first") % {
                "n": number
            }
        case "volcano":
            return _("share %(n)s: allocated over deserved; above 1 it may be reclaimed") % {"n": number}
        case "kai":
            return _("saturation %(n)s: allocated over fair share; above 1 it may be reclaimed") % {"n": number}
        case "yunikorn":
            return _("share %(n)s: allocated over guaranteed; the lowest is served first") % {"n": number}
        case "slurm" | "slinky":
            return _("fair share %(n)s: from 0 (used much) to 1 (used little)") % {"n": number}
    return f"{number} {told}".strip()
