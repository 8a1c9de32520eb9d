"""The files a simulated fleet leaves for its clients: kubeconfigs, inventory, address.

It decides their content and writes each in one step, so that nobody reads half a file. It refuses to invent new
tokens when the folder already holds some: a restarted fleet keeps its credentials.
"""

import csv
import io
import os
from pathlib import Path
from typing import Any

import yaml

from fleet.simulator.host import Host
from fleet.simulator.options import Options

COLUMNS = ("node", "bmc_address", "bmc_uuid", "serial", "rack", "leaf", "rail", "nvlink_domain", "credential_ref")
CREDENTIAL_REF = "env:MUSTER_DEMO_BMC"


def keep_tokens(options: Options) -> None:
    """Use the tokens of an earlier run, if there was one."""
    for file, field in (("kubeconfig", "read_token"), ("act.kubeconfig", "act_token")):
        try:
            told = yaml.safe_load((options.folder / file).read_text())
            setattr(options, field, str(told["users"][0]["user"]["token"]))
        except (OSError, yaml.YAMLError, KeyError, IndexError, TypeError):
            continue


def write(options: Options, address: str, hosts: list[Host]) -> None:
    """Everything but the address first: who sees the address may rely on the rest."""
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    reading = _kubeconfig(options.name, address, "reader", options.read_token)
    acting = _kubeconfig(options.name, address, "actor", options.act_token)
    replace(folder / "kubeconfig", reading, 0o600)
    replace(folder / "act.kubeconfig", acting, 0o600)
    replace(folder / "inventory.csv", inventory(address, hosts))
    replace(folder / "targets.yml", targets(address, len(hosts)))
    replace(folder / "url", address + "\n")


def forget(options: Options) -> None:
    """The address of a fleet that has stopped is no address."""
    (options.folder / "url").unlink(missing_ok=True)


def replace(path: Path, text: str, mode: int = 0o644) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.touch(mode)
    fresh.write_text(text)
    fresh.chmod(mode)
    fresh.replace(path)


def inventory(address: str, hosts: list[Host]) -> str:
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    for h in hosts:
        bmc = f"{address}/bmc/{h.name}"
        table.writerow((h.name, bmc, h.uuid, h.serial, h.rack, h.leaf, h.rail, h.nvlink_domain, CREDENTIAL_REF))
    return out.getvalue()


def targets(address: str, nodes: int) -> str:
    """The fabric's manager as a client lists it. Of a very large fleet it is asked less often: it tells all of it."""
    ufm = {"ufm": address, "credential": CREDENTIAL_REF, "telemetry": f"{address}/ufm/metrics"}
    fabric = [{**ufm, "sharp": f"{address}/ufm/sharp", "every": max(30, nodes // 100)}]
    return yaml.safe_dump({"version": 1, "fabric": fabric}, sort_keys=False)


def _kubeconfig(name: str, address: str, user: str, token: str) -> str:
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": address}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }
    return yaml.safe_dump(config, sort_keys=False)
