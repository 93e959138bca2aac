"""The garbage collector of a process that serves functions: paused during the imports only."""

from __future__ import annotations

import subprocess
import sys

_STEPS = """
import gc
from functions import serving
serving.pre_fork(None, None)
serving.post_fork(None, None)
assert not gc.isenabled()
imported = [{} for _ in range(10_000)]
frozen = gc.get_freeze_count()
serving.post_worker_init(None)
assert gc.isenabled()
assert gc.get_freeze_count() > frozen
"""


def test_garbage_collector_is_paused_during_imports_only() -> None:
    subprocess.run([sys.executable, "-c", _STEPS], check=True)
