"""Lines as kernels, drivers and shippers of many versions write them: each is read right, whatever stands before it."""

from __future__ import annotations

import pytest

from fleet.telemetry.kernelsignals import match

PREFIXES = (
    "",
    "[  449.332316] ",
    "<3>[ 1234.567890] ",
    "kernel: ",
    "Oct  1 13:00:00 gpu-01 kernel: ",
    "Oct 01 13:00:00 gpu-01 kernel: [449410.332316] ",
    "2026-11-30T01:02:03.123456+00:00 gpu-01 kernel: ",
    "2026-11-30T01:02:03.123456789Z stdout F ",
    "2026-11-30T01:02:03.123456789Z stderr P [ 12.3] ",
    "<14>1 2026-11-30T01:02:03Z gpu-01 kernel - - - ",
    "gpu-01 kernel[1]: ",
    "kern  :err   : [Mon Nov 30 01:02:03 2026] ",
    "6,1234,567890123,-;",
    "[  449.332316][ T1234] ",
    "[2026-11-30T01:02:03,123456+00:00] ",
    "2026-11-30T01:02:03,123456+09:00 ",
    "1764464523.123456 gpu-01.example.com kernel: ",
    "Okt 06 17:59:27 gpu-01 kernel: ",
    "<6>Nov 30 01:02:03 10.0.0.7 kernel: [  12.5] ",
    '<3>1 2026-11-30T01:02:03+09:00 gpu-01 kernel - - [meta sequenceId="9"] ',
    "Nov 30 01:02:03 gpu-01 kernel: message repeated 2 times: [ ",
)
# line, kind, device, code, what the detail holds, fatal
LINES = (
    ("NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
     "xid", "0000:3b:00", "79", "GPU has fallen off the bus.", None),
    ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
     "xid", "0000:3b:00", "79", "GPU has fallen off the bus.", None),
    ("NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", "off_bus", "0000:3b:00", "79", "", None),
    ("NVRM: GPU at PCI:0000:3b:00: GPU has fallen off the bus.", "off_bus", "0000:3b:00", "79", "", None),
    ("NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2330)  NVRM: installed in this system has fallen off the bus",
     "off_bus", "0000:3b:00", "79", "", None),
    ("NVRM: Xid (PCI:0000:0f:00.0): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
     "xid", "0000:0f:00", "154", "to 0x2 (Node Reboot Required)", None),
    ("NVRM: Xid (PCI:0000:0f:00): 154, pid='<unknown>', name=<unknown>, GPU recovery action changed from 0x0 (None) to "
     "0x1 (GPU Reset Required)", "xid", "0000:0f:00", "154", "to 0x1 (GPU Reset Required)", None),
    ("NVRM: Xid (0000:03:00): 14, Channel 00000001", "xid", "0000:03:00", "14", "Channel 00000001", None),
    ("NVRM: Xid (PCI:00000000:C1:00.0): 13, Graphics SM Warp Exception on (GPC 3, TPC 2, SM 1): Out Of Range Address",
     "xid", "0000:c1:00", "13", "(GPC 3, TPC 2, SM 1)", None),
    ("NVRM: Xid (PCI:0000:c1:00): 13, pid=3187, name=python3.10, Graphics Exception: ESR 0x514648=0x1000e",
     "xid", "0000:c1:00", "13", "Graphics Exception: ESR", None),
    ("NVRM: Xid (PCI:0000:c1:00): 31, pid=3187, name=python3.10, Ch 0000000a, intr 00000000. MMU Fault: ENGINE",
     "xid", "0000:c1:00", "31", "intr 00000000. MMU Fault", None),
    ("NVRM: Xid (PCI:0000:c1:00): 43, pid=3187, name=pt main thread, Ch 00000008", "xid", "0000:c1:00", "43", "", None),
    ("NVRM: Xid (PCI:0000:c1:00): 48, pid=1896, DBE (double bit error) ECC Error",
     "xid", "0000:c1:00", "48", "DBE (double bit error)", None),
    ("NVRM: Xid (PCI:0000:06:00): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate.",
     "xid", "0000:06:00", "63", "reset gpu to activate.", None),
    ("NVRM: Xid (PCI:0003:00:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14(0x0, "
     "0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)", "xid", "0003:00:00", "74", "link 14(0x0, 0x0, 0x10000,", True),
    ("NVRM: Xid (PCI:0000:c1:00 GPU-I:05): 13, pid=7, name=a, Graphics Exception: ESR 0x5", "xid", "0000:c1:00", "13",
     "Graphics Exception", None),
    ("NVRM: Xid (PCI:0000:c1:00 GPU-I:05 GPU-CI:02): 94, pid=7, name=vllm, Contained: CE User Channel (0x9). RST: No",
     "xid", "0000:c1:00", "94", "Contained: CE", None),
    ("NVRM: Xid (PCI:0000:06:00): 94, pid=7, name=vllm, Contained: SM (0x1). RST: No, D-RST: No",
     "xid", "0000:06:00", "94", "Contained: SM (0x1)", None),
    ("NVRM: Xid (PCI:0000:06:00): 95, pid='<unknown>', name=<unknown>, Uncontained: LTC TAG (0x2,0x0). RST: Yes",
     "xid", "0000:06:00", "95", "Uncontained: LTC TAG", None),
    ("NVRM: Xid (PCI:0000:06:00): 119, pid=1, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU0 "
     "GSP! Expected function 76 (GSP_RM_CONTROL) (0x20802a02 0x8).", "xid", "0000:06:00", "119", "Timeout", None),
    ("NVRM: Xid (PCI:0018:01:00): 145, RLW_REMAP Nonfatal XC1 i0 Link 05 (0x00000004 0x00000002 0x0 0x0 0x0 0x0)",
     "xid", "0018:01:00", "145", "RLW_REMAP", False),
    ("NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6 0x0 0x0 0x0 0x0 0x0)",
     "xid", "0018:01:00", "149", "NETIR_LINK_EVT", True),
    ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
     "sxid", "0000:c1:00", "20034", "link 30: LTSSM Fault Up", True),
    ("nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
     "sxid", "0000:c1:00", "12028", "egress non-posted PRIV error", False),
    ("nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 10004, Non-fatal, host_thermal_event",
     "sxid", "0000:c1:00", "10004", "host_thermal_event", False),
    ("mlx5_core 0000:3b:00.0: wait_func:1151:(pid 1967): MODIFY_CQ(0x403) timeout. Will cause a leak of a command "
     "resource", "mlx5", "0000:3b:00", "", "leak of a command resource", None),
    ("mlx5_core 0000:3b:00.0: poll_health:1001:(pid 0): device's health compromised - reached miss count",
     "mlx5", "0000:3b:00", "", "health compromised", None),
    ("mlx5_core 0000:3b:00.0 ens1f0np0: health poll failed", "mlx5", "0000:3b:00", "", "health poll failed", None),
    ("nfs: server fs01.example.com not responding, still trying", "nfs_stalled", "fs01.example.com", "", "", None),
    ("nfs: server 10.0.0.5 not responding, timed out", "nfs_stalled", "10.0.0.5", "", "", None),
    ("nfs: server fs01.example.com OK", "nfs_ok", "fs01.example.com", "", "", None),
    ("NFS: nfs4_reclaim_open_state: unhandled error -121", "nfs_lost", "", "", "unhandled error", None),
    ("INFO: task tokio worker-3:812 blocked for more than 245 seconds.", "hung_task", "", "", "worker-3 for 245", None),
    ("INFO: task kworker/u256:3:77 blocked for more than 120 seconds.", "hung_task", "", "", "u256:3 for 120 s", None),
    ("INFO: task jbd2/nvme0n1p2-:1234 blocked for more than 122 seconds.", "hung_task", "", "", "for 122 s", None),
    ("nvme nvme0: I/O 12 (I/O Cmd) QID 1 timeout, aborting", "nvme", "nvme0", "", "aborting", False),
    ("nvme nvme0: I/O 0 QID 0 timeout, reset controller", "nvme", "nvme0", "", "reset controller", None),
    ("nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10", "nvme", "nvme0", "", "", None),
    ("nvme nvme0: Device not ready; aborting reset, CSTS=0x1", "nvme", "nvme0", "", "not ready", None),
    ("EXT4-fs error (device dm-0): ext4_wait_block_bitmap:582: Remounting filesystem read-only",
     "read_only", "dm-0", "", "", None),
    ("XFS (dm-3): Log I/O Error Detected.  Shutting down filesystem", "read_only", "dm-3", "", "", None),
    ("BTRFS info (device sdb1: state EA): forced readonly", "read_only", "sdb1", "", "", None),
    ("print_req_error: I/O error, dev sda, sector 0 flags 0", "io_error", "sda", "", "", None),
    ("Buffer I/O error on device dm-3, logical block 0", "io_error", "dm-3", "", "", None),
    ("Out of memory: Kill process 1 (a) score 900 or sacrifice child", "oom", "", "", "a", None),
    ("mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 8: 8800004000310e0f", "mce", "", "", "Bank 8", False),
    ("mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 5: bea0000000000108", "mce", "", "", "Bank 5", True),
    ("mce: [Hardware Error]: CPU 1: Machine Check: 0 Bank 7: 9c00004000010091", "mce", "", "", "Bank 7", False),
    ("[Hardware Error]: Corrected error, no action required.", "mce", "", "", "Corrected error", False),
    ("[Hardware Error]: Deferred error, no action required.", "mce", "", "", "Deferred error", False),
    ("[Hardware Error]: Uncorrected, software restartable error.", "mce", "", "", "restartable", True),
    ("[Hardware Error]: Uncorrected, software containable error.", "mce", "", "", "containable", True),
    ("[Hardware Error]: System Fatal error.", "mce", "", "", "Fatal", True),
    ("EDAC MC0: UE page 0x7f3, offset 0x0, grain 32, row 1, labels", "mce", "", "MC0", "1 UE page", True),
    ("{1}[Hardware Error]: event severity: recoverable", "mce", "", "", "recoverable", True),
    ("EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x1)",
     "mce", "", "MC0", "CE memory read error", False),
    ("nvidia 0000:1b:00.0: AER: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Requester "
     "ID)", "aer", "0000:1b:00", "", "Uncorrected (Non-Fatal)", None),
    ("pcieport 0000:20:01.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, id=0008(Transmitter ID)",
     "aer", "0000:20:01", "", "Corrected Data Link Layer", False),
    ("nvme 0000:04:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
     "aer", "0000:04:00", "", "Correctable Physical Layer", False),
    ("nvidia 0000:1b:00.0: AER: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer",
     "aer", "0000:1b:00", "", "Uncorrectable (Fatal)", True),
    ("pcieport 10000:00:01.0: PCIe Bus Error: severity=Corrected, type=Physical Layer",
     "aer", "10000:00:01", "", "Corrected", False),
)  # fmt: skip
NOTHING = (
    "blk_update_request: I/O error, dev fd0, sector 0",
    "Buffer I/O error on dev sr0, logical block 1",
    "I/O error, dev loop12, sector 2",
    "EXT4-fs (loop3): Remounting filesystem read-only",
    "NVRM: GPU at PCI:0000:3b:00: GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3f7",
    "NVRM: GPU Board Serial Number: 1652922000000",
    "NVRM: A GPU crash dump has been created. If possible, please run",
    "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0xffff:2477)",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.172.08",
    "net_ratelimit: 12 callbacks suppressed",
    "__nv_drm_gem_nvkms_map: 33 callbacks suppressed",
    "NVRM: nvAssertFailedNoLog: 120 callbacks suppressed",
    "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Severity 0 Engine instance 32 Sub-engine instance 00",
    "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Data {0x00000000, 0x00000000, 0x00000000}",
    "mlx5_core 0000:3b:00.0: mlx5_cmd_out_err:838:(pid 7): ACCESS_REG(0x805) op_mod(0x0) failed, status bad parameter",
    "mlx5_core 0000:3b:00.0 ens1f0np0: Link up",
    "rpcbind: server fs01 not responding, timed out",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0",
    "Memory cgroup out of memory: Killed process 9 (train) total-vm:1kB",
    "EDAC i10nm MC3: HANDLING MCE MEMORY ERROR",
    "pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0",
    "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Quota mode: none.",
    "EXT4-fs (nvme0n1p2): re-mounted. Opts: (null), read-only",
)


@pytest.mark.parametrize(
    ("text", "kind", "device", "code", "detail", "fatal"), LINES, ids=lambda value: str(value)[:40]
)
def test_a_line_is_read_right_whatever_a_shipper_puts_before_it(
    text: str, kind: str, device: str, code: str, detail: str, fatal: bool | None
) -> None:
    for prefix in PREFIXES:
        signal = match(prefix + text)
        assert signal is not None, prefix
        assert (signal.kind, signal.device, signal.code, signal.fatal) == (kind, device, code, fatal), prefix
        assert detail in signal.detail
        assert match(f"{prefix}{text}\n") is not None


@pytest.mark.parametrize("text", NOTHING)
def test_what_stands_beside_a_fault_is_none(text: str) -> None:
    for prefix in PREFIXES:
        assert match(prefix + text) is None, prefix


@pytest.mark.parametrize(
    ("said", "process"),
    [
        ("pid=3187, name=python3.10, Ch 0000000a, MMU Fault", "3187"),
        ("pid='3187', name=python, MMU Fault", "3187"),
        ("pid='<unknown>', name=<unknown>, MMU Fault", ""),
        ("MMU Fault", ""),
    ],
)
def test_the_process_of_an_xid_is_kept_where_the_driver_knows_it(said: str, process: str) -> None:
    signal = match(f"NVRM: Xid (PCI:0000:c1:00): 31, {said}")
    assert signal is not None
    assert (signal.process, signal.detail) == (process, "MMU Fault")


# What programs write about the kernel, and what others than the kernel write into its log.
STRANGE = (
    "gpu-monitor[812]: saw ",
    'level=error msg="',
    "[gpu-health] [WARN] GPU-e11dfcca-7c93: XID: ",
    "Nov 30 01:02:03 gpu-01 gpud[99]: kernel: ",
    "Nov 30 01:02:03 gpu-01 nvidia-vgpu-mgr[99]: ",
    "Nov 30 01:02:03 gpu-01 qemu[99]: guest console: [  12.5] ",
    "2026-11-30T01:02:03Z stdout F E AssertionError: ",
    "> ",
    "# ",
    "+ echo ",
    '{"msg":"',
    "app: kernel: ",
    "12,1234,567890123,-;",
    "user  :err   : [Mon Nov 30 01:02:03 2026] ",
    "<14>1 2026-11-30T01:02:03Z gpu-01 trainer 7 - - ",
)


@pytest.mark.parametrize("text", [line[0] for line in LINES])
def test_a_line_that_somebody_quotes_is_no_fault_of_this_node(text: str) -> None:
    for prefix in STRANGE:
        assert match(prefix + text) is None, prefix
