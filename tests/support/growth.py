"""Finds regular expressions whose time grows faster than their text.

Each repetition in a pattern is pumped: texts of growing length repeat what it matches, and end in what it does not. A
backtracking engine tries every split of such a text if the pattern is ambiguous, and a search tries it from every
position. `redoctor` and `recheck` do the same by analysis, but the first is not free software and the second needs
another language's runtime.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

PATTERN_METHODS = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")

_SECONDS = 0.06
"""CPU seconds that no text of at most 40,960 characters may take: more than fifty times what linear patterns take."""
_SIZES = (*range(4, 40, 3), 160, 640, 2560, 10_240, 40_960)
"""Characters. They begin in small steps, so that an exponential pattern is found before it takes minutes."""
_ENDS = ("", "\0")
_USUAL = 'aA0 _-./:"\\\n'
_SAMPLES = 6


def slow_text(pattern: str | bytes, flags: int, methods: Iterable[str]) -> str:
    """Returns how a text begins that one of the methods of the pattern needs too much time for; empty if none does."""
    compiled = re.compile(pattern, flags)
    calls = {method if method in ("match", "fullmatch") else "finditer" for method in methods}
    for method in sorted(calls):
        run = getattr(compiled, method)
        for prefix, pump, end in _pumped(compiled):
            for size in _SIZES:
                text = prefix + pump * (size // len(pump) + 1) + end
                given = text.encode("latin-1", "replace") if isinstance(pattern, bytes) else text
                if _seconds(run, given) > _SECONDS:
                    return f"{method}: {prefix!r} + {pump!r} * {size // len(pump) + 1} + {end!r}"
    return ""


def _seconds(run: Any, text: Any) -> float:
    """Returns the CPU seconds of this thread, the least of some attempts."""
    least = float("inf")
    for _ in range(3):
        began = time.thread_time()
        found = run(text)
        if hasattr(found, "__next__"):
            for _ in found:
                pass
        least = min(least, time.thread_time() - began)
        if least < _SECONDS:
            break
    return least


def _pumped(compiled: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """Yields prefixes, pumps and ends of texts."""
    parser: Any = re._parser  # type: ignore[attr-defined] # the tree of a pattern has no public name
    tree = parser.parse(compiled.pattern, compiled.flags)
    alphabet = "".join(dict.fromkeys([*_literals(tree), *_USUAL]))
    found = dict.fromkeys(_repetitions(tree, "", alphabet))
    whole = _samples(tree, alphabet)
    found |= dict.fromkeys(("", sample[:cut]) for sample in whole for cut in {len(sample), len(sample) - 1})
    for prefix, pump in found:
        if pump:
            for end in _ENDS:
                yield prefix, pump, end


def _repetitions(tree: Any, prefix: str, alphabet: str) -> Iterator[tuple[str, str]]:
    """Yields for each repetition a text that leads to it, and texts that it matches once."""
    for operation, argument in tree:
        match str(operation):
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                _, most, body = argument
                if most > 10:
                    for sample in _samples(body, alphabet):
                        yield prefix, sample
                        yield "", prefix + sample  # a search begins anew at each of them
                    yield "", prefix
                yield from _repetitions(body, prefix, alphabet)
            case "SUBPATTERN":
                yield from _repetitions(argument[-1], prefix, alphabet)
            case "ATOMIC_GROUP":
                yield from _repetitions(argument, prefix, alphabet)
            case "ASSERT" | "ASSERT_NOT":
                yield from _repetitions(argument[1], prefix, alphabet)
            case "BRANCH":
                for branch in argument[1]:
                    yield from _repetitions(branch, prefix, alphabet)
        prefix += next(iter(_samples([(operation, argument)], alphabet)), "")


def _samples(tree: Any, alphabet: str) -> list[str]:
    """Returns some texts that a part of a pattern matches."""
    choices = [list(islice(dict.fromkeys(_texts(node[0], node[1], alphabet)), _SAMPLES)) or [""] for node in tree]
    most = max(map(len, choices), default=1)
    return list(dict.fromkeys("".join(each[number % len(each)] for each in choices) for number in range(most)))


def _texts(operation: Any, argument: Any, alphabet: str) -> Iterator[str]:
    match str(operation):
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, body = argument
            for sample in _samples(body, alphabet):
                yield sample * max(least, 1)
            if not least:
                yield ""
            if most > 1:
                yield "".join(_samples(body, alphabet)) * max(least, 1)
        case "SUBPATTERN":
            yield from _samples(argument[-1], alphabet)
        case "ATOMIC_GROUP":
            yield from _samples(argument, alphabet)
        case "BRANCH":
            for branch in argument[1]:
                yield from _samples(branch, alphabet)
        case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY":
            yield from (one for one in alphabet if _accepts(str(operation), argument, one))


_CATEGORIES = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}


def _accepts(operation: str, argument: Any, character: str) -> bool:
    match operation:
        case "LITERAL":
            return ord(character) == argument
        case "NOT_LITERAL":
            return ord(character) != argument
        case "RANGE":
            return bool(argument[0] <= ord(character) <= argument[1])
        case "CATEGORY":
            word = str(argument).rpartition("_")[2]
            return bool(re.match(_CATEGORIES[word], character)) is not ("_NOT_" in str(argument))
        case "IN":
            negated = str(argument[0][0]) == "NEGATE"
            return any(_accepts(str(one), other, character) for one, other in argument[negated:]) is not negated
    return True


def _literals(tree: Any) -> Iterator[str]:
    """Yields the characters that a pattern names, and the ends of its ranges."""
    for operation, argument in tree:
        match str(operation):
            case "LITERAL" | "NOT_LITERAL":
                yield chr(argument)
            case "RANGE":
                yield from map(chr, argument)
            case "IN":
                yield from _literals(argument)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT" | "SUBPATTERN":
                yield from _literals(argument[-1])
            case "ATOMIC_GROUP":
                yield from _literals(argument)
            case "ASSERT" | "ASSERT_NOT":
                yield from _literals(argument[1])
            case "BRANCH":
                for branch in argument[1]:
                    yield from _literals(branch)
