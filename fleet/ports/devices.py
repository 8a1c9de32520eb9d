"""Which resources of Kubernetes and YuniKorn are devices that compute: GPUs and what stands in their place.

Decides by name. Each name is a kind of its own: a share of a GPU or a MIG profile stands for no whole one. Refuses what
only measures a device (memory, cores, per cent of one), monitors it, or moves data for it.
"""

from __future__ import annotations

import re

DEVICE = re.compile(
    r"^(?:"
    r"[a-z0-9.-]+/v?(?:gpu|npu|xpu|tpu|gcu|dcu|mlu)"  # by most makers' device plugins
    r"|nvidia\.com/(?:gpu\.shared|mig-.+)"
    r"|amd\.com/(?:gpu.+|[sdqc]px_.+)"
    r"|gpu\.intel\.com/(?:i915|xe)|habana\.ai/.+"
    r"|aws\.amazon\.com/neuron(?:core|device)?"
    r"|volcano\.sh/v?gpu-number"
    r"|huawei\.com/Ascend\w+(?:-\d+c.*)?|cambricon\.com/v?mlu\w+|hygon\.com/dcunum"
    r"|furiosa\.ai/.+|rebellions\.ai/\w+|tenstorrent\.com/\w+|qualcomm\.com/qaic"
    r")$"
)
