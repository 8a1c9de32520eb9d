"""`manage.py bench NAME`: measure one path, or with `all` every one.

Decides only where the result goes: as a table for people, or as JSON to a file or (`-`) to standard output.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fleet.ops import bench


class Command(BaseCommand):
    help = "Measure a path: NAME is one of the benchmarks, or all."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="a benchmark, or all")
        parser.add_argument("--nodes", type=int, help="the size; each benchmark has a default of its own")
        parser.add_argument("--json", metavar="FILE", help="write JSON there; - is standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        names = bench.names() if options["name"] == "all" else [options["name"]]
        for name in names:
            try:
                result = bench.run(name, options["nodes"])
            except bench.UnknownBench as error:
                raise CommandError(str(error)) from error
            self._tell(result, options["json"])

    def _tell(self, result: dict[str, Any], where: str | None) -> None:
        line = json.dumps(result)
        if where == "-":
            self.stdout.write(line)
        elif where:
            with Path(where).open("a", encoding="utf-8") as out:
                out.write(line + "\n")
        else:
            self.stdout.write(f"{result['name']} at {result['nodes']} nodes")
            for key, value in result["metrics"].items():
                self.stdout.write(f"  {key:<28} {value}")
