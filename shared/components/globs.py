"""Globs as shells have them in `${V#pattern}`: `*`, `?`, `[a-z]`, `[^a-z]` and `\\c`, matched in linear time."""

from __future__ import annotations

from collections.abc import Callable

_Test = Callable[[str], bool]
"""Of one character. None among the tests of a pattern stands for `*`."""


def prefixes(pattern: str, text: str) -> list[int]:
    """The lengths of the prefixes of `text` that `pattern` matches, shortest first; the empty one never counts."""
    tests = _tests(pattern)
    states = _spread({0}, tests)
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
        states = _spread(after, tests)
        if not states:
            break
        if len(tests) in states:
            found.append(position)
    return found


def _spread(states: set[int], tests: list[_Test | None]) -> set[int]:
    """With the states behind every `*` that may match nothing."""
    for state in list(states):
        while state < len(tests) and tests[state] is None:
            state += 1
            states.add(state)
    return states


def _tests(pattern: str) -> list[_Test | None]:
    tests: list[_Test | None] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        if character == "*":
            tests.append(None)
        elif character == "?":
            tests.append(lambda _character: True)
        elif character == "[" and (end := pattern.find("]", position + 1)) > 0:
            tests.append(_class(pattern[position:end]))
            position = end + 1
        else:
            if character == "\\" and position < len(pattern):
                character = pattern[position]
                position += 1
            tests.append(lambda found, wanted=character: found == wanted)  # type: ignore[misc]
    return tests


def _class(text: str) -> _Test:
    negated = text.startswith("^")
    text = text.removeprefix("^")
    ranges = []
    position = 0
    while position < len(text):
        if text[position + 1 : position + 2] == "-" and position + 2 < len(text):
            ranges.append((text[position], text[position + 2]))
            position += 3
        else:
            ranges.append((text[position], text[position]))
            position += 1
    return lambda found: any(low <= found <= high for low, high in ranges) is not negated
