"""Runs one parser under the fuzzer, in this process: `python -m tests.abuse.fuzz_one PARSER [OPTION of libFuzzer]`."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["shared", "functions", "events"]):
    from tests.support.parsers import PARSERS


def main() -> None:
    """Fuzzes until the time is over or an input fails; ends the process."""
    name, *options = sys.argv[1:]
    parser = next(one for one in PARSERS if one.name == name)
    atheris.Setup([sys.argv[0], *options], parser.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
