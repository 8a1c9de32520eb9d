"""Rules on storage and hosts that are data alone.

Decides the limits; each says where it was published, or that it is our choice. Refuses to drain for what a person can
mend beside running work: a power supply, a fan or a worn disk is a ticket.
"""

from __future__ import annotations

from fleet.health.rules.watch import Watch, Watched
from fleet.health.rules.watch import exporter_rule as _rule
from fleet.telemetry import names

_STORAGE = (
    Watched(
        _rule("fs-readonly", "File system turned read-only", (names.FS_READONLY,), "unhealthy", "inspect",
              "node-problem-detector; only one that was writable before", "flag", 1, scrapes=2, of=2),
        (Watch("at_least", names.FS_READONLY, "File system %(part)s turned read-only", seen_good=True),),
    ),
    Watched(
        _rule("fs-full", "File system full", (names.FS_AVAIL, names.FS_SIZE), "degraded", "ticket", "our choice",
              "ratio free", 0.02, window=120.0, scrapes=2, of=2),
        (Watch("below", names.FS_AVAIL, "File system %(part)s is full: a share of %(value)s is free",
               over=names.FS_SIZE, active=names.FS_SIZE, active_from=1e9),),
    ),
    Watched(
        _rule("nfs-timeouts", "NFS operations time out", (names.NFS_MAJOR,), "degraded", "ticket",
              "any major time-out; over a full minute is our choice", "time-outs/min", 1, window=60.0),
        (Watch("rate", names.NFS_MAJOR, "NFS %(sub)s of %(part)s timed out %(value)s times a minute", per=60.0),),
    ),
    Watched(
        _rule("nfs-slow", "NFS reads are slow", (names.NFS_RESPONSE, names.NFS_REQUESTS), "degraded", "monitor",
              "our choice: one second a read on average", "s/read", 1, window=300.0),
        (Watch("rate", names.NFS_RESPONSE, "NFS reads of %(part)s take %(value)s s (limit %(limit)s s)", sub="READ",
               over=names.NFS_REQUESTS),),
    ),
    Watched(
        _rule("nvme-warning", "NVMe critical warning", (names.SMART_WARNING, names.NVME_WARNING), "degraded", "ticket",
              "the NVMe standard: any bit", "bits", scrapes=2, of=2),
        tuple(Watch("not", metric, "Disk %(part)s gives a critical warning (%(value)s)")
              for metric in (names.SMART_WARNING, names.NVME_WARNING)),
    ),
    Watched(
        _rule("disk-smart", "Disk says that it fails", (names.SMART_STATUS,), "degraded", "ticket",
              "the disk's own SMART status", "flag", 1, scrapes=2, of=2),
        (Watch("below", names.SMART_STATUS, "Disk %(part)s says that it fails"),),
    ),
    Watched(
        _rule("nvme-spare", "NVMe spare used up",
              (names.SMART_SPARE, names.SMART_SPARE_MIN, names.NVME_SPARE, names.NVME_SPARE_MIN), "degraded", "ticket",
              "the disk's own threshold", "own unit", scrapes=2, of=2),
        tuple(Watch("at_most", metric, "Disk %(part)s has %(value)s spare left (its limit is %(limit)s)", against=limit)
              for metric, limit in ((names.SMART_SPARE, names.SMART_SPARE_MIN),
                                    (names.NVME_SPARE, names.NVME_SPARE_MIN))),
    ),
    Watched(
        _rule("nvme-media", "NVMe media errors", (names.SMART_MEDIA, names.NVME_MEDIA), "degraded", "ticket",
              "any growth", "errors", 1, latched=True),
        tuple(Watch("grows", metric, "Disk %(part)s counted %(value)s new media errors")
              for metric in (names.SMART_MEDIA, names.NVME_MEDIA)),
    ),
    Watched(
        _rule("nvme-wear", "NVMe worn", (names.SMART_USED, names.NVME_USED), "degraded", "ticket", "our choice", "%",
              90, scrapes=2, of=2),
        tuple(Watch("at_least", metric, "Disk %(part)s has used %(value)s %% of its life", scale=scale)
              for metric, scale in ((names.SMART_USED, 1.0), (names.NVME_USED, 100.0))),
    ),
    Watched(
        _rule("lustre-health", "Lustre is not healthy", (names.LUSTRE_HEALTH,), "degraded", "ticket",
              "Lustre's own health file", "flag", 1, window=60.0, scrapes=2, of=2),
        (Watch("below", names.LUSTRE_HEALTH, "Lustre says that it is not healthy"),),
    ),
    Watched(
        _rule("gpfs-state", "GPFS is not active", (names.GPFS_STATE,), "unhealthy", "inspect", "mmgetstate", "flag", 1,
              window=60.0, scrapes=2, of=2),
        (Watch("below", names.GPFS_STATE, "GPFS is not active on the node", sub="active"),),
    ),
    Watched(
        _rule("gpfs-mount", "GPFS file system not mounted", (names.GPFS_MOUNT,), "unhealthy", "inspect",
              "the exporter compares fstab with the mounts", "flag", 1, window=60.0, scrapes=2, of=2),
        (Watch("below", names.GPFS_MOUNT, "GPFS file system %(part)s is not mounted"),),
    ),
    Watched(
        _rule("weka-drives", "WEKA drives lost", (names.WEKA_DRIVES, names.WEKA_ALL_DRIVES), "degraded", "ticket",
              "WEKA's own counts of its drives", "own unit", window=60.0, scrapes=2, of=2),
        (Watch("below", names.WEKA_DRIVES, "WEKA has %(value)s of %(limit)s drives", against=names.WEKA_ALL_DRIVES),),
    ),
    Watched(
        _rule("weka-alert", "WEKA alert", (names.WEKA_ALERTS,), "degraded", "monitor", "WEKA's own alerts", "alerts", 1,
              scrapes=2, of=2),
        (Watch("at_least", names.WEKA_ALERTS, "WEKA alerts: %(sub)s", gone_is_good=True),),
    ),
)  # fmt: skip
_HOST = (
    Watched(
        _rule("edac-ue", "Uncorrectable host memory error", (names.EDAC_UE,), "unhealthy", "inspect", "any growth",
              "errors", 1, latched=True),
        (Watch("grows", names.EDAC_UE, "Memory controller %(part)s counted %(value)s uncorrectable errors"),),
    ),
    Watched(
        _rule("edac-ce", "Many corrected host memory errors", (names.EDAC_CE,), "degraded", "ticket", "our choice",
              "errors/h", 100, window=3600.0),
        (Watch("rate", names.EDAC_CE, "Memory controller %(part)s corrects %(value)s errors an hour", per=3600.0),),
    ),
    Watched(
        _rule("memory-corrupted", "Host memory taken out of use", (names.CORRUPTED,), "degraded", "ticket",
              "the kernel gave up pages with hardware errors", "B", scrapes=2, of=2),
        (Watch("above", names.CORRUPTED, "The kernel gave up %(value)s B of memory with hardware errors"),),
    ),
    Watched(
        _rule("hung-tasks", "Hung kernel tasks", (names.HUNG_TASKS,), "degraded", "monitor",
              "node-problem-detector: TaskHung", "tasks", 1, latched=True),
        (Watch("grows", names.HUNG_TASKS, "%(value)s tasks hang in the kernel"),),
    ),
    Watched(
        _rule("psu", "Power supply lost", (names.REDFISH_PSU, names.IPMI_SENSOR), "degraded", "ticket",
              "Redfish: 2 and 3 are warning and critical; IPMI: 2 is critical", "state", 2, window=60.0,
              scrapes=2, of=2),
        tuple(Watch("at_least", metric, "Power supply %(part)s has failed or has no input")
              for metric in (names.REDFISH_PSU, names.IPMI_SENSOR)),
    ),
    Watched(
        _rule("fan", "Fan failed", (names.REDFISH_FAN, names.IPMI_FAN), "degraded", "ticket",
              "Redfish: 2 and 3 are warning and critical; IPMI: 2 is critical", "state", 2, window=60.0,
              scrapes=2, of=2),
        tuple(Watch("at_least", metric, "Fan %(part)s has failed") for metric in (names.REDFISH_FAN, names.IPMI_FAN)),
    ),
    Watched(
        _rule("boot-loop", "Node boots again and again", (names.BOOT_TIME,), "unhealthy", "inspect",
              "our choice: three boots an hour that nobody of us caused", "boots", 3, window=3600.0),
        (Watch("changes", names.BOOT_TIME, "The node has booted %(value)s times within an hour"),),
    ),
    Watched(
        _rule("sharp-invalid", "SHARP aggregation nodes invalid", (names.SHARP_INVALID,), "degraded", "ticket",
              "the aggregation manager's own count", "nodes", window=120.0, scrapes=2, of=2),
        (Watch("above", names.SHARP_INVALID, "SHARP has %(value)s aggregation nodes in an invalid state"),),
    ),
    Watched(
        _rule("sharp-stale", "SHARP aggregation manager is silent", (names.SHARP_JOBS,), "degraded", "ticket",
              "it tells every 60 s; three times that is our choice", "s", 180),
        (Watch("silent", names.SHARP_JOBS, "The SHARP aggregation manager has told nothing new for %(limit)s s"),),
    ),
)  # fmt: skip
WATCHED: tuple[Watched, ...] = (*_STORAGE, *_HOST)
