"""`manage.py inject`: makes the simulator break something, or mend it again.

It decides how an order reaches the simulator and how a refusal reads. It refuses to know the faults: the simulator
lists them.
"""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    help = "Make the simulator break something."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("fault", help="for example xid79; an unknown one is answered with the list")
        parser.add_argument("--node", default="", help="name of the node")
        parser.add_argument("--device", type=int, help="index of the GPU, port or power supply (default 0)")
        parser.add_argument("--clear", action="store_true", help="mend it instead")
        parser.add_argument("--name", default="demo", help="name of the simulated cluster (default demo)")

    def handle(self, *args: Any, **options: Any) -> None:
        order = {key: options[key] for key in ("fault", "node", "device", "clear")}
        answer = _post(_address(options["name"]), order)
        word = "cleared" if options["clear"] else "injected"
        self.stdout.write(f"{word} {answer['fault']} on {answer['node'] or 'the fleet'}")


def _address(name: str) -> str:
    folder = settings.VAR / "simulator"
    file = (folder if name == "demo" else folder / name) / "url"
    try:
        return str(file.read_text()).strip()
    except OSError:
        raise CommandError(f"the simulator {name!r} is not running: there is no {file}") from None


def _post(address: str, order: dict[str, Any]) -> dict[str, Any]:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.request("POST", "/_sim/inject", json.dumps(order), {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError) as problem:
        raise CommandError(f"the simulator at {address} does not answer: {problem}") from None
    finally:
        connection.close()
    if response.status != 200:
        raise CommandError(str(answer.get("error")))
    return answer
