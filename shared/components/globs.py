"""Matches the glob patterns of substitutions such as `${NAME#pattern}`, without backtracking.

The time is at most proportional to the product of the lengths of pattern and text.

A pattern may contain `*`, `?`, `[a-z]`, `[^a-z]`, and any character after a backslash. An invalid pattern matches
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_Matcher = Callable[[str], bool]
"""Returns whether a character matches one token of a pattern. In a list of matchers None stands for `*`."""


def prefix_lengths(pattern: str, text: str) -> list[int]:
    """Returns the lengths of the prefixes of `text` that match, shortest first, without the empty prefix."""
    matchers = _parse(pattern)
    if matchers is None:
        return []
    # A state is the number of matchers that the text so far has satisfied; several states are possible after a `*`.
    states = _add_states_after_stars({0}, matchers)
    lengths = []
    for length, character in enumerate(text, 1):
        next_states = set()
        for state in states:
            if state == len(matchers):
                continue
            matches = matchers[state]
            if matches is None:
                next_states.add(state)
            elif matches(character):
                next_states.add(state + 1)
        states = _add_states_after_stars(next_states, matchers)
        if not states:
            break
        if len(matchers) in states:
            lengths.append(length)
    return lengths


def _add_states_after_stars(states: set[int], matchers: list[_Matcher | None]) -> set[int]:
    """Adds the states that `*` leads to when it matches no character, and returns all states."""
    for state in list(states):
        while state < len(matchers) and matchers[state] is None:
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


def _parse(pattern: str) -> list[_Matcher | None] | None:
    """Returns the matchers of a pattern; None if it is invalid."""
    matchers: list[_Matcher | None] = []
    position = 0
    while position < len(pattern):
        match = _TOKEN.match(pattern, position)
        if match is None:
            return None
        position = match.end()
        matchers.append(None if match["star"] else _matcher(match))
    return matchers


def _matcher(token: re.Match[str]) -> _Matcher:
    if token["any"]:
        return lambda _character: True
    if token["class"]:
        ranges = [(low, high or low) for low, high in _RANGE.findall(token["class"])]
        negated = bool(token["not"])
        return lambda character: any(low <= character <= high for low, high in ranges) is not negated
    literal = token["escaped"] or token["plain"]
    return lambda character: character == literal
