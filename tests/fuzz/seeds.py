# ruff: noqa: E501 - shapes are as long as they are
"""What the harnesses start from: real shapes, and the hostile ones that everybody tries first."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import cramjam

from tests.unit.telemetry import writes
from tests.unit.telemetry.test_healthevents import alert, sentinel
from tests.unit.telemetry.test_kernellog import FLUENT, LINE
from tests.unit.telemetry.test_loki import as_json, as_protobuf
from tests.unit.telemetry.texts import labels_of

ROOT = Path(__file__).parents[2]
MS = 1_800_000_000_000
# Values in the places of numbers, times and names.
ODD = [
    "NaN", "1e999", "-0", "9" * 30, "1_0", "0x10", "+Inf", "null", "true", '"\\ud800"', '"\\u0000"', '"n1\\u0000"', "[]",
    '"0001-01-01T00:00:00+23:59"', '"9999-12-31T23:59:59-23:59"', "1800000000", "1800000000000", "1800000000000000",
    "1800000000000000000", "-1", '"1800000000000"', "253402300800",
]  # fmt: skip


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _odd(whole: bytes, *places: bytes) -> list[bytes]:
    """The shape with each odd value in each of the places."""
    return [whole.replace(place, odd.encode()) for place in places for odd in ODD]


def _scrapes() -> list[bytes]:
    gpu = labels_of("n1", 0)
    text = (
        f"# HELP a b\n# TYPE DCGM_FI_DEV_GPU_TEMP gauge\nDCGM_FI_DEV_GPU_TEMP{{{gpu}}} 41\n"
        f"DCGM_FI_DEV_XID_ERRORS{{{gpu}}} 0 {MS}\nup 1\nnode_time_seconds 1.8e+09\n"
        'node_filesystem_readonly{device="/dev/sda",mountpoint="/data",fstype="xfs"} 0\n'
        'node_infiniband_port_data_received_bytes_total{device="mlx5_0",port="1"} 5\n'
    )
    odd = ['up{a="\\n\\"\\\\"} +Inf\n', "up 1_0\n", "up NaN 99999999999999999999\n", 'up{a="1",a="2"} 1\n', "up{} 1e999\n",
           'up{a="\0"} 1\n', "# EOF", "up 1 -1\n", "\n" * 40, "up 0x10\n", 'up{a="}"} 1 # {trace="x"} 1 1\n', "up\t1\t5\n"]  # fmt: skip
    openmetrics = '# TYPE a counter\n# UNIT a seconds\na_total{x="y"} 1 1800000000.5\na_created 1\n# EOF\n'
    return [body.encode() for body in (text, *odd, openmetrics, text[:97])] + [b'up{a="\xff"} 1\n']


def _write_1() -> list[bytes]:
    whole = writes.series(sorted(writes.gpu("n1").items()), [(41.0, MS)])
    many = writes.series(sorted(writes.gpu("n2").items()), [(0.0, MS), (1.0, 0), (float("nan"), -1)])
    odd = [
        b"",
        b"\x0a\x00",
        writes.labels([("", "x")]),
        b"\x12\x7f",
        b"\x0a" + b"\xff" * 10,
        b"\x1a\x02\x08\x01",
        b"\x0b\x0c",
    ]
    blocks = [writes.block(1, one) for one in (whole, many, *odd)]
    return [b"".join(blocks[:2]), *blocks, b"".join(blocks), b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x00" * 30]


def _write_2() -> list[bytes]:
    whole = writes.second_plain([(writes.gpu("n1"), [(41.0, MS)]), (writes.gpu("n2"), [(0.0, 0)])])
    return [whole, whole[:-9], writes.block(5, writes.block(1, b"\x63\x64")), writes.block(5, b"") * 20, b"\x22\x00\x2a\x00",
            writes.block(4, b"\xff\0") + writes.block(5, b"\x08\x00\x08\x00\x12\x00\x1a\x00\x22\x00")]  # fmt: skip


def _records() -> list[bytes]:
    one = _json({**FLUENT, "date": 7777})
    joined = [_json([FLUENT, {"MESSAGE": LINE, "_HOSTNAME": "n1", "__REALTIME_TIMESTAMP": "1800000000000000"}])]
    joined += [
        one + b"\n" + one,
        one + one,
        b"[" + one + b"," + one[:30],
        b"{\n" + one[1:] + b"\n" + one,
        one[:9] + b"\n" + one,
    ]
    deep = [b'{"a":' * 40 + b"1" + b"}" * 40, b"[" * 2000, b'{"a":[\n' * 60, b"hello", b"", b"[]", b"7", b"\xff\xfe{"]
    vector = {"timestamp": "2026-05-01T12:00:00.5Z", "host": "n1", "message": LINE, "source_type": "journald"}
    inner = {"kubernetes": {"node_name": "n1"}, "log": LINE}
    return [*joined, *deep, _json(vector), _json(inner), *_odd(one, b"7777", b'"n1"')]


def _events() -> list[bytes]:
    gpud = {
        "node": "n1",
        "component": "xid",
        "states": [{"time": "2026-05-01T12:00:00Z", "health": "Unhealthy", "reason": "r"}],
    }
    one = _json(sentinel(nodeName="n1", recommendedAction=7777))
    bodies = [
        _json(sentinel()),
        _json([sentinel(), gpud, 7, {}]),
        _json(gpud),
        _json(sentinel()["data"]),
        one,
        b"[]",
        b"{",
    ]
    bodies.append(_json(sentinel(errorCode=[[[]]], generatedTimestamp={"seconds": 1800000000})))
    bodies += _odd(_json(sentinel(generatedTimestamp=7777)), b"7777", b'"n1"', b'"e1"') + _odd(
        one, b"7777", b'["DCGM_FR_X"]'
    )
    return [first + body for body in bodies for first in (b" ", b"\x80")]


def _alerts() -> list[bytes]:
    return [_json(alert()), _json({"alerts": [alert()["alerts"][0], 7, {}]}), b'{"version":"5","alerts":[]}', b"[]",
            _json(alert(status="resolved")), *_odd(_json(alert(startsAt=7777)), b"7777", b'"n1:9400"', b'"4"')]  # fmt: skip


def _promql() -> list[bytes]:
    point = {"metric": {"Hostname": "n1", "UUID": "GPU-1"}, "value": [1800000000.5, "41"]}
    curve = {"metric": {"gpu": "0"}, "values": [[1800000000, "1"], [1800000015, "NaN"]]}

    def whole(kind: str, *result: object) -> bytes:
        return _json({"status": "success", "data": {"resultType": kind, "result": list(result)}, "warnings": ["w"]})

    error = b'{"status":"error","errorType":"bad_data","error":"x"}'
    vector, matrix = whole("vector", point, {"metric": {}, "histogram": []}), whole("matrix", curve)
    return [vector, matrix, whole("scalar", 1, "2"), error, b"<html>", whole("vector", 7), *_odd(vector, b'"41"', b'"n1"', b'["w"]'),
            *_odd(matrix, b"1800000000", b'"0"', b'{"gpu": "0"}')]  # fmt: skip


def _slurm() -> list[bytes]:
    node = {"name": "n1", "state": ["IDLE", "DRAIN"], "reason": "Muster hold 1/2 by m-1: x | before: y", "gres": "gpu:h100:8(S:0-1)",
            "boot_time": {"set": True, "infinite": False, "number": 7777}, "partitions": ["a"], "address": "10.0.0.1"}  # fmt: skip
    job = {
        "job_id": 7777,
        "job_state": "RUNNING",
        "nodes": "n[1-3,7]",
        "partition": "a,b",
        "tres_req_str": "cpu=1,gres/gpu=8",
    }
    whole = _json(
        {
            "nodes": [node, 7],
            "jobs": [job, None],
            "partitions": [{"name": "a", "partition": {"state": ["UP"]}}],
            "reservations": [
                {
                    "name": "muster-hold.17.ab.m",
                    "node_list": "n1",
                    "users": "m",
                    "flags": ["MAINT"],
                    "start_time": 1,
                    "end_time": {"set": True, "number": 9},
                }
            ],
        }
    )
    texts = [b"gpu-[01-03,07],x[1-2][3-4]", b"gpu:a:8K,gpu", b"a.eyJleHAiOjF9.b", b"[" * 200, b"n[0-99999999]"]
    return [whole, *texts, *_odd(whole, b"7777", b'"n1"')]


def _kubernetes() -> list[bytes]:
    node = {
        "metadata": {"name": "n1", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}, "creationTimestamp": "2026-05-01T12:00:00Z"},
        "spec": {"unschedulable": True, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": 8},
            "conditions": [{"type": "Ready", "status": "True", "reason": "r", "message": "m", "lastHeartbeatTime": "2026-05-01T12:00:00Z"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "nodeInfo": {"bootID": "b"},
        },
    }  # fmt: skip
    pod = {
        "metadata": {"name": "p", "namespace": "a", "deletionTimestamp": "0001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30,
                     "ownerReferences": [{"kind": "Job", "name": "j", "controller": True}], "finalizers": ["f"]},
        "spec": {"nodeName": "n1", "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1e308"}}, "ports": [{"containerPort": 9}]}]},
        "status": {"phase": "Running"},
    }  # fmt: skip
    status = {
        "kind": "Status",
        "code": 410,
        "reason": "Expired",
        "message": "too old",
        "details": {
            "causes": [{"reason": "DisruptionBudget", "message": "The disruption budget x needs 1"}],
            "retryAfterSeconds": 3,
        },
    }
    watched = [_json({"type": kind, "object": one}) for kind, one in
               (("ADDED", node), ("MODIFIED", pod), ("BOOKMARK", node), ("ERROR", status), ("DELETED", 7))]  # fmt: skip
    deep = b'{"type":"ERROR","object":{"message":' + b"[" * 500 + b"]" * 500 + b"}}"
    return [_json(node), _json(pod), _json(status), *watched, deep, *_odd(_json(node), b'"8"', b'"r"', b'"2026-05-01T12:00:00Z"'),
            *_odd(_json(status), b'"reason": "Expired"', b"410", b"3}")]  # fmt: skip


def _redfish() -> list[bytes]:
    system = {"UUID": "C7A5FDBD-CDAF-9455-926A-D65C16DB1809", "SerialNumber": "SN-1", "PowerState": "On", "LastResetTime": "x",
              "BootProgress": {"LastState": "OSRunning"}, "Actions": {"#ComputerSystem.Reset": {
                  "target": "/x", "ResetType@Redfish.AllowableValues": ["On"]}}}  # fmt: skip
    paged = {**system, "Members": [{"@odata.id": "/a/3"}], "Members@odata.nextLink": "/redfish/v1/Systems?$skip=1"}
    return [_json(system), _json(paged), b"{}", b"[]", *_odd(_json(system), b'"On"', b'"SN-1"', b'"/x"')]


def _fabric() -> list[bytes]:
    link = {
        "source_guid": "0x1",
        "source_port": "3",
        "destination_guid": "2",
        "destination_port": 4,
        "source_port_node_description": "n1 mlx5_0",
    }
    port = {"name": "0002c90300000001_1", "guid": "1", "number": 1, "node_description": "n1 mlx5_0"}
    alarm = {
        "related_object_name": "0002c90300000001_1",
        "event_type": 110,
        "name": "Symbol error",
        "severity": "Minor",
    }
    text = (
        b'infiniband_switch_uplink_info{guid="0x1",port="1",switch="s",uplink="n1",uplink_guid="0x2",uplink_port="1",uplink_type="CA"} 1\n'
        b'infiniband_switch_port_symbol_error_total{guid="0x1",port="1"} 5\nSymbolErrorCounterExtended{port_id="1_1"} 1e999 1800000000000\n'
        b"metadata_timestamp 1e300\ninvalid_jobs NaN\n"
    )
    whole = _json([link, port, alarm, 7, {}])
    return [whole, b"[]", b"{}", b"<html>", text, text[:90], *_odd(whole, b'"0x1"', b'"3"', b"110", b'"n1 mlx5_0"')]


BOOK = (
    "version: 1\nplaybooks:\n- name: reboot\n  title: A reboot, then people\n  match: {action: [reboot_node], pool_kind: [bare_metal]}\n"
    "  attempts: 2\n  steps: [hold, drain: {deadline: 4h}, reboot: {ladder: [reboot, power_cycle]}, validate, soak, return]\n"
)
POLICY = (
    "version: 1\ndefault:\n  caps:\n    hold: {fleet: 20%}\n    in_flight: {rack: 2, leaf: {nodes: 3, percent: 12.5}}\n"
    "  rates: {fleet: {verbs: 20, within: 1h}}\n  floors: {tenant: 80%}\n  breaker: {percent: 10, window: 15m}\n  windows:\n"
    "  - {kind: freeze, name: q, zone: Asia/Seoul, days: [mon], start: 22:30, lasts: 4h, begins: 2026-12-01, ends: 2027-01-01}\n"
    "clusters: {seoul: {caps: {hold: {rack: none}}}}\napprovals: {bulk: {people: 2, within: 1h}}\nroles: {operator: 10}\n"
)
TARGETS = (
    "version: 1\nnodes:\n  n1:\n    exporters: {dcgm: http://10.0.0.1:9400/metrics, node: 'http://[::1]:9100/m'}\n    addresses: [10.0.0.1]\n"
    "    labels: {topology.muster.dev/rack: r01}\n    ports: {mlx5_0: '0x1070fd03000e1a2c'}\nfabric:\n- ufm: https://u.example.com\n"
    "  credential: env:UFM\n  telemetry: http://u.example.com:9001/metrics\n  every: 30\n- exporter: http://x.example.com:9315/metrics\n"
)
CSV = b'node,bmc_address,serial,rack\nn1,https://10.0.0.1,SN-1,r01\nn2,https://10.0.0.2,SN-2\n\xffn3,,,\n#x\n"n4","a""b",\0,\n'
BOMB = "a0: &a0 [1, 2]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))
YAMLS = [
    "a: 2020-13-01", 'a: !!int ""', "a: !!bool x", 'a: !!float ""', "a: !!timestamp x", "a: &a [*a]", "0x" + "f" * 5000,
    "[" * 300, "9" * 5000, '"\\ud800"', BOMB, "a: {<<: [*x]}", "? [a]: b", "\0", "{<<: {a: b}}", "a: .inf\nb: -.nan",
    "!!python/object:os.system a", "!!set {a, b}", "!!binary YQ==", "--- a\n--- b",
]  # fmt: skip
INVENTORY = "nodes:\n- node: n1\n  rack: r01\n  bmcs:\n  - {bmc_address: 'https://10.0.0.1', serial: SN-1}\n  - 7\n- 7\n- {node: 5}\n"
RULES = "version: 1\nrules:\n  thermal: {threshold: 85, severity: unhealthy}\n  ib-rnr: {shadow: true}\npools:\n  p:\n    pcie-replay: {threshold: 60, window: 600}\n"
KUBECONFIG = (
    "current-context: c\ncontexts:\n- name: c\n  context: {user: u, cluster: k}\nusers:\n- name: u\n  user:\n"
    "    exec: {command: x}\n    auth-provider: {name: p, config: {cmd-path: y}}\nclusters: []\n"
)


def _yaml(*own: str) -> list[bytes]:
    whole = own[0]
    return [text.encode("utf-8", "surrogatepass") for text in (*own, *YAMLS, *(whole + text for text in YAMLS))]


def _packed() -> list[bytes]:
    plain = writes.second_plain([(writes.gpu("n1"), [(1.0, MS)])])
    block = bytes(cramjam.snappy.compress_raw(plain))
    member = gzip.compress(plain)
    bomb = bytes(cramjam.snappy.compress_raw(b"\x0a\x00" * 5_000))
    return [block, block[:-3], bomb, b"\xff\xff\xff\xff\x0f", b"\xff\x06\x00\x00sNaPpY", member, member + member, member[:-4],
            member + b"\0\0", member + b"x", gzip.compress(b"a" * 3_000_000)]  # fmt: skip


def seeds() -> dict[str, list[bytes]]:
    """By the name of a harness."""
    lines = [LINE.encode(), b"nvidia-nvswitch3: SXid (PCI:0000:a9:00.0): 12028, Fatal, Link 32 egress", b"1800000000000",
             b"nfs: server a not responding, still trying", b"mlx5_core 0000:5e:00.0: health poll failed", b"0001-01-01T00:00:00+14:00",
             b"pcieport 0000:00:1d.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
             b"nvme nvme0: I/O 1 QID 2 timeout, reset controller", b"EXT4-fs (sda1): Remounting filesystem read-only",
             b"EDAC MC0: 1 UE memory read error", b"[Hardware Error]: event severity: fatal",
             b"Memory cgroup out of memory: Killed process 12 (python)"]  # fmt: skip
    loki = [as_json({"host": "n1"}, LINE, json.dumps(FLUENT)), b'{"streams":[]}', b'{"streams":[{"values":[[]]}]}',
            *_odd(as_json({"host": "n1"}, LINE), b'"n1"'), b'{"streams":7}', b"[]"]  # fmt: skip
    pushed = [as_protobuf({"host": "n1"}, LINE), as_protobuf({}, json.dumps(FLUENT)), as_protobuf({"host": "n1"}, LINE, LINE)[:-9],
              writes.block(1, writes.block(1, b'{a="') + writes.block(2, b"\x0a\x7f")), writes.block(1, b"\x12\x00" * 20)]  # fmt: skip
    packed = _packed()
    scenario_files = [path.read_text(encoding="utf-8") for path in (ROOT / "fleet/simulator/scenarios").glob("*.yaml")]
    return {
        "exposition": [first + body for body in _scrapes() for first in (b" ", b"\x80")],
        "scrape": _scrapes(),
        "remote_write_1": _write_1(),
        "remote_write_2": _write_2(),
        "snappy": packed,
        "gzip": packed,
        "loki_json": loki,
        "loki_protobuf": pushed,
        "kernel_records": _records(),
        "kernel_line": lines,
        "health_events": _events(),
        "alerts": _alerts(),
        "promql": _promql(),
        "kubernetes": _kubernetes(),
        "redfish": _redfish(),
        "slurm": _slurm(),
        "inventory_csv": [
            CSV,
            b"",
            b"node\n" + b"x" * 140_000,
            b"node,node\n",
            b"\xef\xbb\xbfnode\nn1\n",
            b'node\n"n1\n',
        ],
        "inventory_yaml": _yaml(INVENTORY),
        "site_rules": _yaml(RULES),
        "playbooks": _yaml(
            BOOK,
            "p: &p [1]\nversion: 1\nplaybooks: *p\n",
            "version: 1\n<<: {playbooks: []}\n",
            BOOK.replace("reboot, power_cycle", "{a: b}, 7"),
            BOOK.replace("4h", "[4h]"),
            BOOK.replace("hold", "{a: [b]}"),
        ),
        "policy": _yaml(
            POLICY,
            POLICY.replace("Asia/Seoul", "../x"),
            POLICY.replace("[mon]", "[[mon]]"),
            POLICY.replace("rack: none", "{a: b}: 1"),
            POLICY.replace("2027-01-01", "9999-12-31T23:59:59-23:59"),
        ),
        "target_list": _yaml(TARGETS),
        "fabric": _fabric(),
        "scenario": _yaml(
            "description: x\nevents:\n- {at: 1, fault: xid79, nodes: {count: 2, names: [a]}}\n", *scenario_files
        ),
        "kubeconfig": _yaml(KUBECONFIG),
        "plain_yaml": _yaml(INVENTORY),
    }
