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
        parser.add_argument("--quick", action="store_true", help="only what `all` runs of it")
        parser.add_argument("--json", metavar="FILE", help="write JSON there; - is standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["name"] == "all":
            for result in bench.run_all(options["nodes"]):
                self._tell(result, options["json"])
            return
        try:
            result = bench.run(options["name"], options["nodes"], options["quick"])
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
                if isinstance(value, list):  # a table
                    self.stdout.write(f"  {key}")
                    value = "".join(f"\n    {' '.join(f'{k}={v}' for k, v in row.items())}" for row in value)[1:]
                self.stdout.write(f"  {key:<28} {value}")
