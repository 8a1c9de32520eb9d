"""One Redfish BMC per node, reachable whatever the host does.

It decides what a BMC answers, how long it takes, and how it misbehaves: silent, lying, failing, or another machine's.
It refuses callers without the password, except at the service root, which the standard leaves open.
"""

import asyncio
import base64
import contextlib
from random import Random
from typing import Any

import orjson

from fleet.simulator.faults_host import SUPPLIES
from fleet.simulator.host import Host, identity
from fleet.simulator.power import VERBS, Power, PowerRefused
from fleet.simulator.stats import Stats
from fleet.simulator.timeline import stamp
from fleet.simulator.web import Request, Response, json_response

Json = dict[str, Any]
LATENCY = (0.020, 0.050)
SILENCE = 120.0
TARGETS = ("None", "Pxe", "Hdd", "Cd", "BiosSetup", "UefiHttp")
ENABLED = ("Disabled", "Once", "Continuous")


class Bmcs:
    def __init__(
        self, hosts: dict[str, Host], power: Power, stats: Stats, rng: Random, credential: str, latency: float = 1.0
    ) -> None:
        self.hosts = hosts
        self.power = power
        self.stats = stats
        self.rng = rng
        self.latency = latency
        self.password = "Basic " + base64.b64encode(credential.encode()).decode()

    async def answer(self, request: Request) -> Response:
        """request.path is /bmc/<node>/redfish/..."""
        parts = request.path.strip("/").split("/")
        host = self.hosts.get(parts[1]) if len(parts) > 1 else None
        if host is None or parts[2:3] != ["redfish"]:
            return _error(404, "ResourceMissingAtURI", f"nothing at {request.path}")
        # A caller who gave up and asks again is one caller: let the loop hear first that the old connection is gone.
        await asyncio.sleep(0.002)
        self.stats.bmc_call_began(host.name)
        try:
            self._count(host, request, parts[3:])
            if "bmc_silent" in host.faults:
                await _hang_up(request)
                return _error(503, "ServiceTemporarilyUnavailable", "too late")
            await asyncio.sleep(self.rng.uniform(*LATENCY) * self.latency)
            if "bmc_500" in host.faults:
                return _error(500, "InternalError", "the service has failed")
            return self._route(host, request, parts[3:])
        finally:
            self.stats.bmc_call_ended(host.name)

    def _count(self, host: Host, request: Request, parts: list[str]) -> None:
        """A reset counts when it arrives, whatever the BMC makes of it."""
        if request.method == "POST" and parts[-1:] == ["ComputerSystem.Reset"] and self._known(request):
            try:
                verb = str(request.json().get("ResetType", ""))
            except (ValueError, AttributeError):
                verb = "malformed"
            self.stats.bmc[host.name][verb] += 1

    def _known(self, request: Request) -> bool:
        return request.header("authorization") == self.password

    def _route(self, host: Host, request: Request, parts: list[str]) -> Response:
        base = f"/bmc/{host.name}/redfish/v1"
        if not parts:
            return json_response({"v1": f"{base}/"})
        if parts == ["v1"] and request.method == "GET":
            return json_response(_root(host, base))
        if not self._known(request):
            refused = _error(401, "NoValidSession", "there is no valid session or credential")
            refused.headers["WWW-Authenticate"] = 'Basic realm="BMC"'
            return refused
        system = _system_id(host)
        if parts[1:2] == ["Systems"] and len(parts) >= 3 and parts[2] in (system, "1", host.uuid):
            if parts[3:] == ["Actions", "ComputerSystem.Reset"] and request.method == "POST":
                return self._reset(host, request)
            if len(parts) == 3 and request.method == "PATCH":
                return self._boot_override(host, request)
            if len(parts) == 3 and request.method == "GET":
                return json_response(_system(host, base, system))
        document = _fixed(host, base, parts[1:], system) if request.method == "GET" else None
        return (
            json_response(document) if document else _error(404, "ResourceMissingAtURI", f"nothing at {request.path}")
        )

    def _reset(self, host: Host, request: Request) -> Response:
        try:
            verb = request.json()["ResetType"]
        except (ValueError, KeyError, TypeError):
            return _error(400, "ActionParameterMissing", "ResetType is missing")
        if verb not in VERBS:
            return _error(400, "ActionParameterValueNotInList", f"{verb} is not one of {', '.join(VERBS)}")
        if "bmc_lies" in host.faults:
            return Response(204)
        try:
            self.power.reset(host, verb)
        except PowerRefused as refusal:
            return _error(409, "ResourceInUse", str(refusal))
        return Response(204)

    def _boot_override(self, host: Host, request: Request) -> Response:
        try:
            boot = request.json()["Boot"]
            target = boot.get("BootSourceOverrideTarget", host.boot_override)
        except (ValueError, KeyError, TypeError, AttributeError):
            return _error(400, "PropertyMissing", "only Boot can be changed")
        if target not in TARGETS or boot.get("BootSourceOverrideEnabled", "Once") not in ENABLED:
            return _error(400, "PropertyValueNotInList", f"{target} is not one of {', '.join(TARGETS)}")
        host.boot_override = "None" if boot.get("BootSourceOverrideEnabled") == "Disabled" else target
        return Response(204)


def _system_id(host: Host) -> str:
    return str(identity(host.uuid, "other")) if "bmc_wrong_serial" in host.faults else host.uuid


def _root(host: Host, base: str) -> Json:
    return {
        "@odata.id": f"{base}/",
        "@odata.type": "#ServiceRoot.v1_15_0.ServiceRoot",
        "Id": "RootService",
        "Name": "Root Service",
        "RedfishVersion": "1.15.0",
        "UUID": str(identity(host.uuid, "bmc")),
        "Systems": {"@odata.id": f"{base}/Systems"},
        "Managers": {"@odata.id": f"{base}/Managers"},
        "Chassis": {"@odata.id": f"{base}/Chassis"},
    }


def _system(host: Host, base: str, system: str) -> Json:
    wrong = "bmc_wrong_serial" in host.faults
    here = f"{base}/Systems/{system}"
    progress = "None" if host.power == "Off" else "OSBootStarted" if host.booting else "OSRunning"
    return {
        "@odata.id": here,
        "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem",
        "Id": system,
        "Name": host.name,
        "SystemType": "Physical",
        "Manufacturer": "Simulated",
        "Model": "H100-8X",
        "UUID": system,
        "SerialNumber": "X" + host.serial if wrong else host.serial,
        "PowerState": host.power,
        "LastResetTime": stamp(int(host.last_reset_at)),
        "BootProgress": {"LastState": progress},
        "Status": {"State": "Enabled", "Health": "OK", "HealthRollup": "OK"},
        "Boot": {
            "BootSourceOverrideEnabled": "Disabled" if host.boot_override == "None" else "Once",
            "BootSourceOverrideTarget": host.boot_override,
            "BootSourceOverrideMode": "UEFI",
            "BootSourceOverrideTarget@Redfish.AllowableValues": list(TARGETS),
        },
        "Links": {
            "Chassis": [{"@odata.id": f"{base}/Chassis/1"}],
            "ManagedBy": [{"@odata.id": f"{base}/Managers/BMC"}],
        },
        "Actions": {
            "#ComputerSystem.Reset": {
                "target": f"{here}/Actions/ComputerSystem.Reset",
                "ResetType@Redfish.AllowableValues": list(VERBS),
            }
        },
    }


def _fixed(host: Host, base: str, parts: list[str], system: str) -> Json | None:
    members = {"Systems": system, "Managers": "BMC", "Chassis": "1"}
    if len(parts) == 1 and parts[0] in members:
        kind = {"Systems": "ComputerSystem", "Managers": "Manager", "Chassis": "Chassis"}[parts[0]]
        return {
            "@odata.id": f"{base}/{parts[0]}",
            "@odata.type": f"#{kind}Collection.{kind}Collection",
            "Name": f"{kind} Collection",
            "Members@odata.count": 1,
            "Members": [{"@odata.id": f"{base}/{parts[0]}/{members[parts[0]]}"}],
        }
    here = f"{base}/{'/'.join(parts)}"
    status = {"State": "Enabled", "Health": "Warning" if host.psu_failed >= 0 else "OK"}
    if parts == ["Managers", "BMC"]:
        return {
            "@odata.id": here,
            "@odata.type": "#Manager.v1_19_0.Manager",
            "Id": "BMC",
            "Name": "Baseboard Management Controller",
            "ManagerType": "BMC",
            "FirmwareVersion": "24.09.17",
            "UUID": str(identity(host.uuid, "bmc")),
            "Status": {"State": "Enabled", "Health": "OK"},
        }
    if parts == ["Chassis", "1"]:
        return {
            "@odata.id": here,
            "@odata.type": "#Chassis.v1_24_0.Chassis",
            "Id": "1",
            "Name": host.name,
            "ChassisType": "RackMount",
            "SerialNumber": host.serial,
            "PowerState": host.power,
            "Status": status,
            "Power": {"@odata.id": f"{here}/Power"},
        }
    if parts == ["Chassis", "1", "Power"]:
        supplies = [_supply(host, here, number) for number in range(SUPPLIES)]
        return {"@odata.id": here, "@odata.type": "#Power.v1_7_1.Power", "Id": "Power", "PowerSupplies": supplies}
    return None


def _supply(host: Host, here: str, number: int) -> Json:
    failed = number == host.psu_failed
    return {
        "@odata.id": f"{here}#/PowerSupplies/{number}",
        "MemberId": str(number),
        "Name": f"PSU{number + 1}",
        "SerialNumber": f"PS{host.index:05d}{number}",
        "Status": {"State": "UnavailableOffline" if failed else "Enabled", "Health": "Critical" if failed else "OK"},
        "LastPowerOutputWatts": 0 if failed else 1450,
    }


def _error(status: int, code: str, message: str) -> Response:
    info = [{"MessageId": f"Base.1.16.{code}", "Message": message}]
    body = {"error": {"code": f"Base.1.16.{code}", "message": message, "@Message.ExtendedInfo": info}}
    return Response(status, orjson.dumps(body))


async def _hang_up(request: Request) -> None:
    """Say nothing until the caller has had enough."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(gone(), SILENCE)
