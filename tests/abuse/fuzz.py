"""Runs parsers of outside input under a coverage-guided fuzzer: `python -m tests.abuse.fuzz --seconds 60 [PARSER]`.

Each parser runs in a process of its own, with the limits of `test_parsers.py`. An input that fails is kept in
`corpora/<parser>`, where `make test` finds it again: mend the parser, and commit both.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.parsers import CORPORA, LONGEST, PARSERS

MEMORY = 512
"""MiB that an input may take; the fuzzer counts those of the whole process."""
SECONDS = 2
"""Seconds that an input may take."""


def main() -> int:
    """Fuzzes the named parsers, by default all. Returns the number of those that failed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("parsers", nargs="*", metavar="PARSER", help="names of parsers; default: all")
    options.add_argument("--seconds", type=int, default=60, help="seconds for each parser (default: 60)")
    chosen = options.parse_args()
    unknown = {*chosen.parsers} - {parser.name for parser in PARSERS}
    if unknown:
        options.error(f"there is no parser {', '.join(sorted(unknown))}")
    failed = 0
    for parser in PARSERS:
        if not chosen.parsers or parser.name in chosen.parsers:
            failed += not fuzz(parser.name, chosen.seconds)
    return failed


def fuzz(name: str, seconds: int) -> bool:
    """Fuzzes a parser, prints what it did, and returns whether every input was parsed or refused."""
    kept = CORPORA / name
    with tempfile.TemporaryDirectory() as folder:
        seeds, found = Path(folder, "seeds"), Path(folder, "found")
        seeds.mkdir()
        found.mkdir()
        parser = next(one for one in PARSERS if one.name == name)
        for number, data in enumerate(parser.corpus()):
            (seeds / str(number)).write_bytes(data)
        started = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = subprocess.run(
            [
                *(sys.executable, "-m", f"{__package__}.fuzz_one", name, str(seeds)),
                *(f"-max_total_time={seconds}", f"-timeout={SECONDS}", f"-rss_limit_mb={MEMORY + 256}"),
                *(f"-max_len={LONGEST}", f"-artifact_prefix={found}/", "-print_final_stats=1"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds + 120,
            check=False,
        )
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        inputs = [line.split()[-1] for line in run.stdout.splitlines() if "number_of_executed_units" in line]
        cpu = ended.ru_utime - started.ru_utime
        failures = sorted(found.iterdir())
        for failure in failures:
            kept.mkdir(parents=True, exist_ok=True)
            failure.rename(kept / failure.name)
        print(f"{name}: {', '.join(inputs) or 'unknown'} inputs in {cpu:.0f} CPU seconds", end="")
        print(f", {len(failures)} failed: see {kept}" if failures else "", flush=True)
        if run.returncode:
            print(run.stdout[-3000:])
        return not run.returncode


if __name__ == "__main__":
    sys.exit(main())
