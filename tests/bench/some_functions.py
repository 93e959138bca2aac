"""`python -m tests.bench.some_functions NAME,NAME [ARGUMENT ...]`: the forwarder for these functions only."""

from __future__ import annotations

import sys

from events import forwarder
from functions import catalog

if __name__ == "__main__":
    names = tuple(sys.argv[1].split(","))
    catalog.names = lambda: names
    sys.exit(forwarder.main(sys.argv[2:]))
