"""`python -m tests.support.second_look`: runs the few tests that have just failed again, alone, and names them loudly.

A test that fails beside five busy processes and passes alone shows a race, which needs a mend but says nothing against
the change under test. Failures in more than four files are never run again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

_FAILED = Path(".pytest_cache/v/cache/lastfailed")
_MAX_FILES = 4


def main() -> int:
    """Returns 0 if all tests that failed pass alone."""
    failed = sorted(json.loads(_FAILED.read_text())) if _FAILED.exists() else []
    files = {name.partition("::")[0] for name in failed}
    if not 0 < len(files) <= _MAX_FILES:
        return 1
    if subprocess.run([sys.executable, "-m", "pytest", "-rs", "--last-failed", *files], check=False).returncode != 0:
        return 1
    print("#" * 80)
    print("UNSTABLE: these tests failed beside others and passed alone:", *failed, sep="\n  ")
    print("#" * 80)
    return 0


if __name__ == "__main__":
    sys.exit(main())
