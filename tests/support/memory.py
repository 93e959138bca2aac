"""Measures the memory that a piece of code needs, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_MEASURE = """
def _status(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name + ":")) / 1024

def measured(call):
    import gc
    gc.collect()
    with open("/proc/self/clear_refs", "w") as reset:
        reset.write("5")  # VmHWM begins anew (proc(5))
    before = _status("VmRSS")
    try:
        result = call()
    except Exception as error:
        result = f"{type(error).__name__}: {error}"
    print(f"{_status('VmHWM') - before:.0f} {result if isinstance(result, str) else ''}"[:300])
"""


def needed_mib(code: str) -> tuple[int, str]:
    """Returns by how many MiB memory grew at most while `measured(call)` in the code ran, and the error of the call."""
    program = _MEASURE + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", program], cwd=_ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    size, _, error = done.stdout.strip().partition(" ")
    return int(size), error
