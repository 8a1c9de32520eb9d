"""The titles of the playbooks that Muster brings.

Decides nothing. Refuses the titles of a site's own file: they are in the site's language already.
"""

from __future__ import annotations

from django.utils.translation import gettext_noop as noop

PLANS: tuple[str, ...] = (
    noop("A host that is gone is fenced through its BMC before anything else may use its volumes"),
    noop("The same fault came back again and again; people repair the node"),
    noop("A GPU reset, then a reboot, a power-cycle, where there is a provisioner a new image, then people"),
    noop("A GPU reset; a machine without a BMC has no harsher remedy, so people decide"),
    noop("A reboot through the BMC, then a power-cycle, where there is a provisioner a new image, then people"),
    noop("A suspicion; the node is tested once its work has ended, and mended only if the test confirms it"),
    noop("Only people can mend it; the node is drained and a ticket opened"),
)
