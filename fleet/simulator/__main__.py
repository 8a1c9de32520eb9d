"""`python -m fleet.simulator`: a simulated fleet on its own, without the product.

It decides nothing but how the command line is read. It refuses to import Django.
"""

import argparse
import os
import sys
from pathlib import Path

from fleet.simulator.options import add_arguments, from_arguments
from fleet.simulator.server import serve


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fleet.simulator", description="A simulated GPU fleet over HTTP.")
    add_arguments(parser, Path(os.environ.get("MUSTER_VAR", "var")))
    options = from_arguments(parser.parse_args())
    return serve(options, lambda text: print(text, flush=True), lambda text: print(text, file=sys.stderr))


if __name__ == "__main__":
    sys.exit(main())
