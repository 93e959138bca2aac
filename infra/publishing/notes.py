"""Takes the notes of a version from the CHANGELOG."""

from __future__ import annotations

import re

_SECTION = re.compile(r"^## (\S{1,40})\b[^\n]{0,200}\n", re.MULTILINE)


class NoNotes(Exception):
    """The CHANGELOG has no section of the version."""


def notes_of(version: str, changelog: str) -> str:
    """Returns the section of `version`, such as "0.2.0", without its headline. Raises NoNotes."""
    headlines = [*_SECTION.finditer(changelog)]
    for number, headline in enumerate(headlines):
        if headline[1] == version:
            end = headlines[number + 1].start() if number + 1 < len(headlines) else len(changelog)
            return changelog[headline.end() : end].strip() + "\n"
    raise NoNotes(f"CHANGELOG.md has no section `## {version}`: rename `## Unreleased`, and add the date")
