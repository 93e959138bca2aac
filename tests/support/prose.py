"""Finds sentences that have to be read twice: in pages, docstrings, comments, help texts and messages of errors.

`python -m tests.support.prose` fails if a file has more findings than `prose_allowed.txt` allows, and prints them.
With paths it prints all their findings; `--write` sets the allowed numbers to the present ones.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = Path(__file__).with_name("prose_allowed.txt")
# CHANGELOG.md and docs/decisions are records and keep their wording.
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md")
PACKAGES = ("functions", "shared", "events", "infra")
MAXIMUM_WORDS = 35

# Each had at most one false alarm in five findings. "They" and the like are fine in the sentence that has the noun.
PATTERNS = {
    "pronoun for a noun": r"\b(?:those|that) of\b|(?<!only )\b[Oo]ne that\b|\banother one\b",
    "free relative": r"^What |\b(?:of|by|for|from|with|about|in|on|to|than|has|have|keeps|contains|again) what\b"
    r"|\b(?i:delet|deliver|send|repeat|copi|grant|appl|writ|adopt|prun|remov|skip|ignor|leav|replac|restor|undo|do|creat|"
    r"us|refus|claim|interpret|fetch|stor|tak|need|read|yield|set|add|drop|clean|download|build)"
    r"(?:e|es|s|y|ies|ed|ing)? what\b",
    "colon for because": r"(?<!efault)(?<!None)(?<=\w): (?:it|they|otherwise|nobody|whoever|this|these|then|so)\b",
    "since for because": r", since\b(?! the last| it was| Linux| \d)",
    "thing that tells": r"\b(?:tells?|told)\b",
    "thing that asks": r"\b(?:asks|asked) for\b",
    "infinitive for -ing": r"\b(?:[Ss]tarts|[Ss]tops) to \w+",
    "most for maximum": r"^(?:The most|Most (?:bytes|seconds|characters))\b(?! of)",
    "inverted negation": r"(?<![Tt]here )\b(?:is|are) none\b|\b(?:any more|no more(?! than)|as far as)\b"
    r"|\balso (?:where|if|when|while)\b",
}
LONG = "long sentence"
_PATTERNS = {name: re.compile(pattern) for name, pattern in PATTERNS.items()}
_SENTENCE_END = re.compile(r"(?<=[\w)`'\"\]*][.!?])[\"')*]* +(?=\S)")
_STARTS = re.compile(r"\s*(?:[-*]|\d+\.) |    \w+: ")
_TRIPLE_QUOTED = re.compile(
    r'^(?P<docstring> *)?[rf]*"""(?P<text>.*?)"""|"""(?P<other>.*?)"""', re.DOTALL | re.MULTILINE
)
_COMMENT = re.compile(r"^ *# [^\n]*\n(?: *# [^\n]*\n)*|(?<=\S)  # [^\n]*", re.MULTILINE)
_STRINGS = re.compile(r'\b(?:help=|raise \w+\()\(?\s*(?P<text>(?:f?"(?:[^"\\\n]|\\.)*"\s*)+)')


class Finding(NamedTuple):
    line: int
    pattern: str
    sentence: str


def findings(paragraph: str, line: int = 1) -> Iterator[Finding]:
    """Yields the findings in a paragraph that starts at `line`. Quoted code counts as one word."""
    text = re.sub(r"``[^`]+``|`[^`]+`", "`x`", paragraph)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for sentence in _SENTENCE_END.split(" ".join(text.split())):
        for name, pattern in _PATTERNS.items():
            yield from (Finding(line, name, sentence) for _ in pattern.findall(sentence))
        if len(re.findall(r"\w[\w'`-]*", sentence)) > MAXIMUM_WORDS:
            yield Finding(line, LONG, sentence)


def page_paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yields each paragraph, item and table cell of a Markdown page with its first line; skips code and headings."""
    paragraph: list[str] = []
    start, fenced, code = 1, False, False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        stripped = line.strip()
        fence = stripped.startswith("```")
        fenced ^= fence
        starts = bool(_STARTS.match(line))
        code = line.startswith("    ") and (code or not paragraph)
        if paragraph and (starts or fence or not stripped or stripped[0] in "|#"):
            yield start, " ".join(paragraph)
            paragraph = []
        if fenced or fence or code or not stripped or stripped[0] in "<#":
            code = code or not stripped
        elif stripped[0] == "|":
            yield from ((number, cell) for cell in re.split(r"(?<!\\)\|", stripped) if re.search(r"\w", cell))
        else:
            start = start if paragraph else number
            paragraph.append(re.sub(r"^(?:[-*]|\d+\.) ", "", stripped))


def module_paragraphs(source: str) -> Iterator[tuple[int, str]]:
    """Yields the paragraphs of docstrings, comments, `help=` texts and raised messages; parsing would take 3 s."""
    for match in _TRIPLE_QUOTED.finditer(source):
        if match["docstring"] is not None:
            first = source.count("\n", 0, match.start())
            yield from ((first + line, text) for line, text in page_paragraphs(inspect.cleandoc(match["text"])))
    for match in _COMMENT.finditer(source):
        text = " ".join(line.strip(" #") for line in match[0].splitlines())
        yield source.count("\n", 0, match.start()) + 1, text
    for match in _STRINGS.finditer(source):
        text = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', match["text"]))
        yield source.count("\n", 0, match.start()) + 1, re.sub(r"\{[^{}]*\}", "`x`", text)


def file_findings(path: Path) -> list[Finding]:
    text = path.read_text()
    paragraphs = page_paragraphs(text) if path.suffix == ".md" else module_paragraphs(text)
    return [finding for line, paragraph in paragraphs for finding in findings(paragraph, line)]


def files(root: Path = ROOT) -> list[Path]:
    """Returns the pages and modules that are checked, sorted."""
    pages = [path for pattern in PAGES for path in root.glob(pattern)]
    return sorted(pages + [path for package in PACKAGES for path in (root / package).rglob("*.py")])


def read_allowed(text: str) -> dict[str, int]:
    """Returns the allowed number of findings by path; a file that is not listed may have none."""
    return {path: int(number) for number, path in (line.split() for line in text.splitlines())}


def excess(found: Mapping[str, list[Finding]], allowed: Mapping[str, int]) -> list[str]:
    """Returns a message for each file with more findings than allowed, followed by all findings of the file."""
    lines = []
    for path, here in found.items():
        if len(here) > allowed.get(path, 0):
            lines.append(
                f"{path} has {len(here)} sentences that must be read twice, {allowed.get(path, 0)} are allowed:"
            )
            lines += [format_finding(path, finding) for finding in here]
    return lines


def format_finding(path: str, finding: Finding) -> str:
    return f"  {path}:{finding.line}: {finding.pattern}: {finding.sentence}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="print all findings of these files")
    parser.add_argument("--write", action="store_true", help="write the present numbers to prose_allowed.txt")
    arguments = parser.parse_args()
    paths = [path.resolve() for path in arguments.paths] or files()
    found = {str(path.relative_to(ROOT)): file_findings(path) for path in paths}
    if arguments.paths:
        print("\n".join(format_finding(path, finding) for path, here in found.items() for finding in here))
        return 0
    if arguments.write:
        ALLOWED.write_text("".join(f"{len(here)} {path}\n" for path, here in found.items() if here))
        for pattern, number in Counter(finding.pattern for here in found.values() for finding in here).most_common():
            print(f"{number:5} {pattern}")
        return 0
    if lines := excess(found, read_allowed(ALLOWED.read_text())):
        print("\n".join(lines))
        print("Rewrite the new sentences. `python -m tests.support.prose --write` records numbers that became lower.")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
