"""The commands and manifests in the Markdown pages of the repository."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md")),
    *(page for folder in ("docs", "examples") for page in sorted((ROOT / folder).rglob("*.md"))),
)

_FENCED = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)    .*\n(?:    .*\n|\n(?=    ))*")
_SPAN = re.compile(r"`((?:capi-functions|make|kubectl) [^`]+)`")
_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)")
_ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)
_SHELLS = ("sh", "bash", "console")
_PROGRAMS = ("capi-functions", "kubectl", "make", "helm", "git", "export", "source", "curl", "sed", "for", "eval", "cp")


@dataclass(frozen=True)
class Block:
    """A block of a page.

    Attributes:
        page: The file, relative to the repository.
        line: The number of its first line.
        language: The language of a fenced block; empty for an indented block.
        text: The content, without indentation.
    """

    page: str
    line: int
    language: str
    text: str

    @property
    def is_shell(self) -> bool:
        """Whether a shell can run the block."""
        first = self.text.split(maxsplit=1)[0]
        is_command = first in _PROGRAMS or _ASSIGNMENT.fullmatch(first) is not None
        return self.language in _SHELLS or (not self.language and is_command)

    @property
    def is_yaml(self) -> bool:
        """Whether the block is YAML: declared so, or beginning like an object."""
        return self.language == "yaml" or (not self.language and self.text.startswith("apiVersion:"))


def blocks(page: Path) -> Iterator[Block]:
    """Yields all blocks of a page, fenced ones first."""
    text = page.read_text()
    name = str(page.relative_to(ROOT))
    for match in _FENCED.finditer(text):
        yield Block(name, text.count("\n", 0, match.start()) + 2, match["language"] or "text", match["text"])
    rest = _FENCED.sub(lambda match: "\n" * match[0].count("\n"), text)
    for match in _INDENTED.finditer(rest):
        plain = re.sub(r"^    ", "", match[0], flags=re.MULTILINE)
        yield Block(name, rest.count("\n", 0, match.start()) + 1, "", plain)


def spans(page: Path) -> Iterator[str]:
    """Yields the commands in the sentences of a page."""
    for span in _SPAN.findall(_FENCED.sub("", page.read_text())):
        yield " ".join(span.split())


def commands(script: str) -> Iterator[list[str]]:
    """Yields the words of each command in a shell script, without assignments before it and redirections."""
    for inner in _SUBSTITUTION.findall(script):
        yield from commands(inner)
    for line in _SUBSTITUTION.sub("SUBSTITUTED", script).replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        try:
            words = list(lexer)
        except ValueError:  # a text of several lines
            continue
        yield from _split(words)


def _split(words: Sequence[str]) -> Iterator[list[str]]:
    command: list[str] = []
    skip = False
    for word in [*words, ";"]:
        if set(word) <= set("|;&"):
            while command and (_ASSIGNMENT.fullmatch(command[0]) or command[0] in ("do", "then", "env", "exec")):
                command.pop(0)
            if command:
                yield command
            command, skip = [], False
        elif set(word) <= set("<>"):
            skip = True
        elif skip:
            skip = False
        else:
            command.append(word)
