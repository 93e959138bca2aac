"""Matches the globs of `${V#pattern}`: `*`, `?`, `[a-z]`, `[^a-z]` and `\\c`, in linear time, without backtracking.

An invalid pattern matches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_Test = Callable[[str], bool]
"""A test of one character. In a list of tests None stands for `*`."""


def prefixes(pattern: str, text: str) -> list[int]:
    """Returns the lengths of the prefixes of `text` that match, shortest first, without the empty prefix."""
    tests = _tests(pattern)
    if tests is None:
        return []
    states = _add_states_after_stars({0}, tests)
    found = []
    for position, character in enumerate(text, 1):
        after = set()
        for state in states:
            if state == len(tests):
                continue
            test = tests[state]
            if test is None:
                after.add(state)
            elif test(character):
                after.add(state + 1)
        states = _add_states_after_stars(after, tests)
        if not states:
            break
        if len(tests) in states:
            found.append(position)
    return found


def _add_states_after_stars(states: set[int], tests: list[_Test | None]) -> set[int]:
    """Returns the states, with those after each `*`, which may match nothing."""
    for state in list(states):
        while state < len(tests) and tests[state] is None:
            state += 1
            states.add(state)
    return states


_TOKEN = re.compile(
    r"""
    (?P<star>\*++) | (?P<any>\?) | \\(?P<escaped>.) | (?P<plain>[^\[\\])
    | \[(?P<not>\^?+)(?P<class>(?:(?:\\.|[^\\\]-])(?:-(?:\\.|[^\\\]-]))?)+)\]
    """,
    re.DOTALL | re.VERBOSE,
)
_RANGE = re.compile(r"\\?(.)(?:-\\?(.))?", re.DOTALL)


def _tests(pattern: str) -> list[_Test | None] | None:
    """Returns the tests of a pattern; None if it is invalid."""
    tests: list[_Test | None] = []
    position = 0
    while position < len(pattern):
        match = _TOKEN.match(pattern, position)
        if match is None:
            return None
        position = match.end()
        tests.append(None if match["star"] else _test(match))
    return tests


def _test(token: re.Match[str]) -> _Test:
    if token["any"]:
        return lambda _found: True
    if token["class"]:
        ranges = [(low, high or low) for low, high in _RANGE.findall(token["class"])]
        negated = bool(token["not"])
        return lambda found: any(low <= found <= high for low, high in ranges) is not negated
    literal = token["escaped"] or token["plain"]
    return lambda found: found == literal
