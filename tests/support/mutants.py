"""`python -m tests.support.mutants [PATH ...]`: do the unit tests notice a small change of a rule?

A mutant is a module with one change (`mutations.py`). The unit tests that call the changed function run with it. If all
of them pass, the mutant survives, and is printed: either no test has its case, or the change makes no difference.

pytest collects the tests once. Each mutant lives in a forked child, where the code of the changed function is
replaced, whoever has imported it.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import random
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import grimp
import pytest

from .mutations import Mutant, mutants_of

ROOT = Path(__file__).parents[2]
RULES = (
    "events/queue.py",
    "functions/*/*.py",
    "shared/addons/status.py",
    "shared/api/*.py",
    "shared/applier/adoption.py",
    "shared/applier/inventory.py",
    "shared/applier/outcome.py",
    "shared/applier/policy.py",
    "shared/applier/readiness.py",
    "shared/helm_proxies/*.py",
    "shared/kube/selectors.py",
    "shared/providers/*.py",
    "shared/releases/naming.py",
    "shared/rollouts.py",
)
"""The modules with decisions and predicates."""

SECONDS = 20
"""After this time a mutant counts as killed: it may loop or wait for ever."""


class Loop:
    """Runs mutants in the place of pytest's loop over the tests that it has collected."""

    def __init__(self, mutants: Collection[Mutant]) -> None:
        self.mutants = mutants
        self.survivors = 0
        self._paths = {str(mutant.path) for mutant in mutants}
        self._failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        calls = _in_child(lambda: self._calls(session.items)) or []
        breadth = Counter(number for number, _, _ in calls)  # the tests that call little are the likeliest to fail
        gc.unfreeze()  # the collector does not list what a module under test has frozen
        functions = [
            found
            for found in gc.get_objects()
            if isinstance(found, FunctionType) and found.__code__.co_filename in self._paths
        ]
        if not functions:
            raise pytest.UsageError("no unit test imports the modules")
        gc.freeze()  # or the collector of each child would copy the memory of this process
        for mutant in self.mutants:
            first = min(each.lineno for each in [mutant.function, *getattr(mutant.function, "decorator_list", [])])
            lines = range(first, (mutant.function.end_lineno or first) + 1)
            numbers = {number for number, path, line in calls if path == str(mutant.path) and line in lines}
            tests = [session.items[number] for number in sorted(numbers, key=breadth.__getitem__)]
            if _in_child(lambda: self._survives(mutant, functions, tests)):  # noqa: B023 - is called at once
                self.survivors += 1
                print(f"{mutant}\n    called by {len(tests)} tests\n", flush=True)
        return True

    def _calls(self, tests: Sequence[pytest.Item]) -> list[tuple[int, str, int]]:
        """Runs all tests; returns the number of each that passes, with path and first line of what it calls."""
        called: set[tuple[str, int]] = set()
        found: list[tuple[int, str, int]] = []

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and frame.f_code.co_filename in self._paths:
                called.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

        threading.setprofile(note)
        sys.setprofile(note)
        for number, passes in enumerate(self._outcomes(tests)):
            found += [(number, *call) for call in called if passes]
            called.clear()
        return found

    def _survives(self, mutant: Mutant, functions: Sequence[FunctionType], tests: Sequence[pytest.Item]) -> bool:
        limit = threading.Timer(SECONDS, os._exit, [1])
        limit.daemon = True
        limit.start()
        changed = mutant.codes()
        for function in functions:
            for before, after in changed:
                if function.__code__ == before:
                    with contextlib.suppress(ValueError):  # a closure without the variable that the change left out
                        function.__code__ = after
        return all(self._outcomes(tests))

    def _outcomes(self, tests: Sequence[pytest.Item]) -> Iterator[bool]:
        """Runs tests; returns whether each passes."""
        try:
            for test, following in zip(tests, [*tests[1:], None], strict=False):
                self._failed = False
                test.ihook.pytest_runtest_protocol(item=test, nextitem=following)
                yield not self._failed
        finally:
            for test in tests[:1]:
                test.session._setupstate.teardown_exact(None)


def _in_child(work: Callable[[], Any]) -> Any:
    """Returns what `work` returns in a forked child, through JSON; None if the child dies."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with open(writer, "w") as pipe:
                json.dump(work(), pipe)
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    os.close(writer)
    with open(reader) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else None


def unit_tables(rules: Collection[Path], paths: Collection[Path]) -> list[str]:
    """Returns the files of unit tests that import a module of the rules, and (in any depth) one of `paths`."""
    graph = grimp.build_graph("shared", "functions", "events", "infra", "tests", cache_dir=None)
    module = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (*rules, *paths)}
    tables = {test for path in rules for test in graph.find_modules_that_directly_import(module[path])}
    reaching = {test for path in paths for test in graph.find_downstream_modules(module[path])}
    return sorted(f"{test.replace('.', '/')}.py" for test in tables & reaching if test.startswith("tests.unit."))


def main() -> None:
    """Runs a sample of the mutants, and prints the survivors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, help="modules (default: all with decisions and predicates)")
    parser.add_argument("--number", type=int, default=120, help="how many mutants run (default: 120)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    given = parser.parse_args()
    rules = [path for rule in RULES for path in sorted(ROOT.glob(rule)) if path.name != "__init__.py"]
    paths = [path.resolve() for path in given.paths] or rules
    mutants = [mutant for path in paths for mutant in mutants_of(path)]
    chosen = random.Random(given.seed).sample(mutants, min(given.number, len(mutants)))
    print(f"{len(chosen)} of {len(mutants)} mutants in {len(paths)} modules (SEED={given.seed} repeats the choice)\n")

    loop = Loop(chosen)
    os.chdir(ROOT)
    # A child drops the worker processes of its parent, which is not the fault of its first test.
    options = ["-W", "ignore::pytest.PytestUnraisableExceptionWarning", "-p", "no:terminal", "-p", "no:cacheprovider"]
    options += ["--assert=plain", f"--seed={given.seed}"]  # rewritten functions would not be recognized
    if code := pytest.main([*options, *unit_tables(rules, paths)], plugins=[loop]):
        sys.exit(f"the tests cannot be collected: {code!r}")
    killed = len(chosen) - loop.survivors
    print(f"{killed} of {len(chosen)} mutants killed ({killed / max(1, len(chosen)):.0%})")


if __name__ == "__main__":
    main()
