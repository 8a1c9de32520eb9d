"""Rules on GPUs and NVLink that are data alone.

Decides the limits; each says where it was published, or that it is our choice. Refuses code: what a kind of condition
means is in `watching` and `rates`.
"""

from __future__ import annotations

from fleet.health.rules.types import ActionClass, Rule, Severity
from fleet.health.rules.watch import Watch, Watched
from fleet.telemetry import names

_CRC = (names.NVLINK_CRC, names.NVLINK_CRC_DATA, names.NVLINK_DL_CRC)
_REPLAY = (names.NVLINK_REPLAY, names.NVLINK_DL_REPLAY)
_RECOVERY = (names.NVLINK_RECOVERY, names.NVLINK_DL_RECOVERY)
_BUSY = 20.0  # per cent of utilisation from which a PCIe link is no longer resting


def _rule(
    id: str, title: str, metrics: tuple[str, ...], severity: Severity, action: ActionClass, origin: str, unit: str,
    threshold: float = 0.0, **more: float | int | bool,
) -> Rule:  # fmt: skip
    return Rule(id, title, metrics, "dcgm", severity, action, origin, threshold, unit, **more)  # type: ignore[arg-type]


_MEMORY = (
    Watched(
        _rule("ecc-dbe", "Uncorrectable memory error", (names.ECC_DBE,), "unhealthy", "reset_gpu",
              "gcm fails a node on any new volatile double-bit error", "errors", 1, latched=True),
        (Watch("grows", names.ECC_DBE, "GPU %(part)s counted %(value)s new uncorrectable memory errors"),),
    ),
    Watched(
        _rule("row-remap-failure", "Memory row remapping failed", (names.ROW_REMAP_FAILURE,), "unhealthy",
              "replace_part", "NVIDIA, gpud and AzNHC agree: the GPU is to be returned", "flag", 1, scrapes=2, of=3),
        (Watch("at_least", names.ROW_REMAP_FAILURE, "GPU %(part)s cannot remap a bad memory row"),),
    ),
    Watched(
        _rule("row-remap-pending", "Memory row waits for its remapping", (names.ROW_REMAP_PENDING,), "degraded",
              "monitor", "AzNHC drains; a reset at the next drain completes the remapping", "flag", 1, scrapes=2, of=2),
        (Watch("at_least", names.ROW_REMAP_PENDING, "GPU %(part)s waits for a reset to remap a memory row"),),
    ),
    Watched(
        _rule("remapped-rows", "Too many memory rows remapped", (names.REMAPPED_ROWS,), "unhealthy", "replace_part",
              "DCGM and AzNHC end at 512 rows", "rows", 512, scrapes=2, of=2),
        (Watch("at_least", names.REMAPPED_ROWS, "GPU %(part)s has remapped %(value)s memory rows (limit %(limit)s)"),),
    ),
    Watched(
        _rule("remapped-rows-rising", "A memory row was remapped after an uncorrectable error", (names.REMAPPED_ROWS,),
              "degraded", "monitor", "AzNHC watches the growth", "rows", 1, latched=True),
        (Watch("grows", names.REMAPPED_ROWS, "GPU %(part)s remapped %(value)s more memory rows"),),
    ),
    Watched(
        _rule("sram-uce", "Uncorrectable SRAM error", (names.SRAM_UCE,), "unhealthy", "reset_gpu",
              "AzNHC fails a node on any", "errors", 1, latched=True),
        (Watch("grows", names.SRAM_UCE, "GPU %(part)s counted %(value)s new uncorrectable SRAM errors"),),
    ),
    Watched(
        _rule("sram-ce", "Many corrected SRAM errors", (names.SRAM_CE,), "degraded", "ticket", "AzNHC",
              "errors", 10_000),
        (Watch("above", names.SRAM_CE, "GPU %(part)s has corrected %(value)s SRAM errors (limit %(limit)s)"),),
    ),
    Watched(
        _rule("dram-ce", "Many corrected DRAM errors", (names.DRAM_CE,), "degraded", "ticket",
              "AzNHC (gcm allows 50 million)", "errors", 20_000_000),
        (Watch("above", names.DRAM_CE, "GPU %(part)s has corrected %(value)s DRAM errors (limit %(limit)s)"),),
    ),
    Watched(
        _rule("sram-threshold", "SRAM error threshold exceeded", (names.THRESHOLD_SRM,), "unhealthy", "replace_part",
              "NVIDIA: field diagnosis, then return", "flag", 1, scrapes=2, of=2),
        (Watch("at_least", names.THRESHOLD_SRM, "GPU %(part)s says that its SRAM errors exceed their threshold"),),
    ),
    Watched(
        _rule("retired-pages", "Too many retired pages", (names.RETIRED_SBE, names.RETIRED_DBE), "unhealthy",
              "replace_part", "DCGM ends at 63 pages in all (GPUs before Ampere)", "pages", 63),
        (Watch("at_least", names.RETIRED_SBE, "GPU %(part)s has retired %(value)s memory pages (limit %(limit)s)",
               plus=names.RETIRED_DBE),),
    ),
    Watched(
        _rule("retired-pages-many", "Many retired pages", (names.RETIRED_SBE, names.RETIRED_DBE), "degraded", "ticket",
              "gcm warns above 10 pages (GPUs before Ampere)", "pages", 10),
        (Watch("above", names.RETIRED_SBE, "GPU %(part)s has retired %(value)s memory pages (limit %(limit)s)",
               plus=names.RETIRED_DBE),),
    ),
    Watched(
        _rule("retired-pages-dbe", "Too many pages retired for double-bit errors", (names.RETIRED_DBE,), "unhealthy",
              "replace_part", "DCGM ends at 15 pages", "pages", 15),
        (Watch("at_least", names.RETIRED_DBE, "GPU %(part)s has retired %(value)s pages for double-bit errors"),),
    ),
    Watched(
        _rule("retired-pages-pending", "Page waits for its retirement", (names.RETIRED_PENDING,), "degraded", "monitor",
              "DCGM: a reset or a reboot completes it", "flag", 1, scrapes=2, of=2),
        (Watch("at_least", names.RETIRED_PENDING, "GPU %(part)s waits for a reset to retire a memory page"),),
    ),
)  # fmt: skip
_STATE = (
    Watched(
        _rule("gpu-recovery-reset", "Driver asks for a reset of the GPU", (names.RECOVERY_ACTION,), "unhealthy",
              "reset_gpu", "DCGM: 1 asks for a reset, 4 for drain and reset", "code", scrapes=2, of=2),
        (Watch("is", names.RECOVERY_ACTION, "The driver asks for a reset of GPU %(part)s", values=(1, 4)),),
    ),
    Watched(
        _rule("gpu-recovery-reboot", "Driver asks for a reboot", (names.RECOVERY_ACTION,), "unhealthy", "reboot_node",
              "DCGM: 2 asks for a reboot of the node", "code", scrapes=2, of=2),
        (Watch("is", names.RECOVERY_ACTION, "The driver asks for a reboot because of GPU %(part)s", values=(2,)),),
    ),
    Watched(
        _rule("gpu-recovery-drain", "Driver asks to drain peer-to-peer work", (names.RECOVERY_ACTION,), "degraded",
              "monitor", "DCGM: 3 asks to drain P2P", "code", scrapes=2, of=2),
        (Watch("is", names.RECOVERY_ACTION, "The driver asks to drain peer work of GPU %(part)s", values=(3,)),),
    ),
    Watched(
        _rule("thermal-margin", "No thermal margin left", (names.TEMP_MARGIN,), "degraded", "inspect",
              "NVSentinel: an H100 slows down at a margin of -2", "C", -2, scrapes=2, of=3),
        (Watch("below", names.TEMP_MARGIN, "GPU %(part)s has a thermal margin of %(value)s °C (limit %(limit)s °C)"),),
    ),
    *(
        Watched(
            _rule(f"clock-{name}", f"Clocks lowered: {what}", (names.CLOCK_EVENTS,), "degraded", "ticket",
                  "gpud: 0.6 events a minute over 10 min; the exporter counts over 5 min, so 3 of them for 5 min more",
                  "events in 5 min", 3, window=300.0),
            (Watch("at_least", names.CLOCK_EVENTS, f"GPU %(part)s is slowed down by {what}: %(value)s events in 5 min",
                   sub=sub),),
        )
        for name, sub, what in (
            ("hw-slowdown", "hw_slowdown", "its hardware"),
            ("hw-thermal", "hw_thermal", "hardware thermal protection"),
            ("power-brake", "hw_power_brake", "the external power brake"),
        )
    ),
    Watched(
        _rule("clock-reasons", "Clocks held low by hardware", (names.CLOCK_REASONS,), "degraded", "ticket",
              "AzNHC fails on any reason beyond idle, setting and power cap; 6 of 8 scrapes over 5 min is our choice",
              "bits", window=300.0, scrapes=6, of=8),
        (Watch("bits", names.CLOCK_REASONS, "GPU %(part)s is held at low clocks by its hardware or power brake",
               mask=0x88),),
    ),
    Watched(
        _rule("gpu-p2p", "Peer access between GPUs lost", (names.P2P_STATUS,), "unhealthy", "reset_gpu",
              "DCGM tells 0 for a pair that reaches each other; only a pair that once did is judged (our choice)",
              "status", scrapes=2, of=2),
        (Watch("above", names.P2P_STATUS, "GPU %(part)s no longer reaches its peer %(sub)s", seen_good=True),),
    ),
)  # fmt: skip
_LINKS = (
    Watched(
        _rule("pcie-replay", "PCIe replays", (names.PCIE_REPLAY, names.PCIE_GEN, names.PCIE_WIDTH), "degraded",
              "ticket", "DCGM, by generation and width of the link; 31 (generation 5, 16 lanes) where it is not told",
              "replays/min", 31, window=300.0),
        (Watch("rate", names.PCIE_REPLAY, "PCIe link of GPU %(part)s repeats %(value)s packets/min (limit %(limit)s)",
               per=60.0, lanes=True),),
    ),
    Watched(
        _rule("pcie-width", "PCIe link too narrow", (names.PCIE_WIDTH, names.PCIE_MAX_WIDTH, names.GPU_UTIL),
              "unhealthy", "inspect", "DCGM; judged only while the GPU works (20 % is our choice)", "lanes",
              window=120.0, scrapes=2, of=2),
        (Watch("below", names.PCIE_WIDTH, "PCIe link of GPU %(part)s has %(value)s of %(limit)s lanes",
               against=names.PCIE_MAX_WIDTH, active=names.GPU_UTIL, active_from=_BUSY),),
    ),
    Watched(
        _rule("pcie-gen", "PCIe link too slow", (names.PCIE_GEN, names.PCIE_MAX_GEN, names.GPU_UTIL), "degraded",
              "ticket", "DCGM; an idle link rests at a lower generation, so only while the GPU works (our choice)",
              "generation", window=120.0, scrapes=2, of=2),
        (Watch("below", names.PCIE_GEN, "PCIe link of GPU %(part)s runs at generation %(value)s instead of %(limit)s",
               against=names.PCIE_MAX_GEN, active=names.GPU_UTIL, active_from=_BUSY),),
    ),
    Watched(
        _rule("nvlink-crc", "NVLink CRC errors", _CRC, "degraded", "ticket",
              "DCGM", "errors/s", 1, window=60.0),
        tuple(Watch("rate", metric, "NVLink of GPU %(part)s counts %(value)s CRC errors a second (limit %(limit)s)")
              for metric in _CRC),
    ),
    Watched(
        _rule("nvlink-crc-storm", "NVLink CRC error storm", _CRC, "unhealthy",
              "reset_gpu", "DCGM", "errors/s", 100, window=60.0, latched=True),
        tuple(Watch("rate", metric, "NVLink of GPU %(part)s counts %(value)s CRC errors a second (limit %(limit)s)")
              for metric in _CRC),
    ),
    Watched(
        _rule("nvlink-replay", "NVLink replays", _REPLAY, "unhealthy", "reset_gpu", "DCGM",
              "replays/min", 1, window=300.0, latched=True),
        tuple(Watch("rate", metric, "NVLink of GPU %(part)s replays %(value)s times a minute", per=60.0)
              for metric in _REPLAY),
    ),
    Watched(
        _rule("nvlink-recovery", "NVLink recoveries", _RECOVERY, "unhealthy", "reset_gpu", "DCGM",
              "recoveries/min", 1, window=300.0, latched=True),
        tuple(Watch("rate", metric, "NVLink of GPU %(part)s recovers %(value)s times a minute", per=60.0)
              for metric in _RECOVERY),
    ),
    Watched(
        _rule("nvlink-ber", "NVLink bit errors", (names.NVLINK_BER,), "unhealthy", "inspect", "DCGM (NVLink 5)",
              "ratio", 1e-12, window=60.0, scrapes=2, of=2),
        (Watch("above", names.NVLINK_BER, "NVLink of GPU %(part)s has an effective bit error rate of %(value)s"),),
    ),
    Watched(
        _rule("fabric-manager", "Fabric manager failed", (names.FABRIC_MANAGER,), "unhealthy", "reboot_node",
              "DCGM: 3 is well, 1 not started, 4 failed", "status", scrapes=2, of=2, window=60.0),
        (Watch("is", names.FABRIC_MANAGER, "Fabric manager of GPU %(part)s is not running (status %(value)s)",
               values=(1, 4)),),
    ),
    Watched(
        _rule("fabric-manager-slow", "Fabric manager does not finish", (names.FABRIC_MANAGER,), "degraded", "monitor",
              "DCGM: 2 is under way; 5 min of it are our choice", "status", window=300.0),
        (Watch("is", names.FABRIC_MANAGER, "Fabric manager of GPU %(part)s has been starting for 5 min", values=(2,)),),
    ),
    Watched(
        _rule("fabric-health", "NVLink fabric unhealthy", (names.FABRIC_HEALTH,), "unhealthy", "reset_gpu",
              "DCGM: 2 is unhealthy", "status", scrapes=2, of=2),
        (Watch("is", names.FABRIC_HEALTH, "The NVLink fabric of GPU %(part)s is unhealthy", values=(2,)),),
    ),
    Watched(
        _rule("fabric-limited", "NVLink fabric limited", (names.FABRIC_HEALTH,), "degraded", "ticket",
              "DCGM: 3 is limited capacity", "status", scrapes=2, of=2),
        (Watch("is", names.FABRIC_HEALTH, "The NVLink fabric of GPU %(part)s has limited capacity", values=(3,)),),
    ),
    Watched(
        _rule("nvswitch-fatal", "NVSwitch reports a fatal SXid", (names.SWITCH_FATAL,), "unhealthy", "contact_support",
              "DCGM keeps the last code, so only one that came under our eyes counts", "code"),
        (Watch("above", names.SWITCH_FATAL, "NVSwitch %(part)s reports the fatal SXid %(value)s", seen_good=True),),
    ),
)  # fmt: skip
WATCHED: tuple[Watched, ...] = (*_MEMORY, *_STATE, *_LINKS)
