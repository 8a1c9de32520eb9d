"""Every parser of outside bytes, by name. A new one gets a line here and its shapes in `seeds`."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz import files, slurm, texts, wires

HARNESSES: dict[str, Callable[[bytes], None]] = {
    "exposition": texts.exposition,
    "scrape": texts.scrape,
    "remote_write_1": wires.remote_write_1,
    "remote_write_2": wires.remote_write_2,
    "snappy": wires.snappy,
    "gzip": wires.gzip,
    "loki_json": texts.loki_json,
    "loki_protobuf": wires.loki_protobuf,
    "kernel_records": texts.kernel_records,
    "kernel_line": texts.kernel_line,
    "health_events": texts.health_events,
    "alerts": texts.alerts,
    "promql": files.promql,
    "kubernetes": files.kubernetes,
    "redfish": files.redfish,
    "slurm": slurm.slurm,
    "inventory_csv": files.inventory_csv,
    "inventory_yaml": files.inventory_yaml,
    "site_rules": files.site_rules,
    "playbooks": files.playbooks,
    "policy": files.policy,
    "target_list": files.target_list,
    "fabric": files.fabric,
    "scenario": files.scenario,
    "kubeconfig": files.kubeconfig,
    "plain_yaml": files.plain_yaml,
}
