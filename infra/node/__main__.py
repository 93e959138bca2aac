"""`python -m infra.node`: runs a control plane with one real node until Ctrl-C; `--check` lists what is missing."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from infra.local_control_plane import ControlPlaneError
from infra.local_control_plane.binaries import BinaryNotFound, locate
from infra.node import knative, programs
from infra.node.debian import PackagesNotFound
from infra.node.node import Node, NodeError
from infra.node.requirements import missing


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m infra.node", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say what is missing")
    parser.add_argument("--prepare", action="store_true", help="only get what tests on a node need, with progress")
    parser.add_argument("--knative", action="store_true", help="with --prepare: also Knative's programs")
    parser.add_argument("--image", action="append", default=[], type=Path, metavar="FILE", help="OCI archive to import")
    options = parser.parse_args()
    problems = missing()
    if options.prepare:
        try:
            _prepare(problems, with_knative=options.knative)
        except (BinaryNotFound, PackagesNotFound) as error:
            sys.exit(str(error))
        return
    if problems:
        sys.exit("\n".join(problems))
    if options.check:
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="capi-functions-node-") as folder:
        try:
            with Node(Path(folder)) as node:
                for archive in options.image:
                    node.import_image(archive)
                print(f"Ready after {time.monotonic() - started:.1f} s")
                print(f"export KUBECONFIG={node.kubeconfig}", flush=True)
                signal.pause()
        except KeyboardInterrupt:
            return
        except (NodeError, ControlPlaneError, BinaryNotFound, PackagesNotFound) as error:
            sys.exit(str(error))


def _prepare(problems: Sequence[str], *, with_knative: bool) -> None:
    """Fills the cache; reports if the machine cannot run a node."""
    if problems:
        print("No node:", *problems)
        return

    def progress(line: str) -> None:
        print(line, flush=True)

    programs.prepare(progress)
    if with_knative:
        locate([*knative.EVENTING.programs.values(), *knative.SERVING.programs.values()], progress=progress)


if __name__ == "__main__":
    main()
