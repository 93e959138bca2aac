"""The prose check finds sentences that have to be read twice, and only in text that people read."""

from __future__ import annotations

import pytest

from tests.support.prose import LONG, excess, findings, module_paragraphs, page_paragraphs, read_allowed

PRONOUN, RELATIVE, COLON = "pronoun for a noun", "free relative", "colon for because"
TELLS, NEGATION = "thing that tells", "inverted negation"
SINCE, ASKS, INFINITIVE, MOST = "since for because", "thing that asks", "infinitive for -ing", "most for maximum"


@pytest.mark.parametrize(
    ("sentence", "patterns"),
    [
        ("The version is that of the contract.", [PRONOUN]),
        ("Use those of the run, else those of the environment.", [PRONOUN, PRONOUN]),
        ("A class may be used from another one.", [PRONOUN]),
        ("Binds the port, the only one that helm connects to.", []),
        ("Uses the version of the contract.", []),
        ("What exists is still deleted.", [RELATIVE]),
        ("Decides by what the objects contain.", [RELATIVE]),
        ("The message says what is missing.", []),
        ("The value is not printed: it may be secret.", [COLON]),
        ("The value is not printed because it may be secret.", []),
        ("The field is empty: so nothing is written.", [COLON]),
        ("Default: they are not deleted.", []),
        ("Lists are compared, since others add items.", [SINCE]),
        ("Needs Landlock, since Linux 5.13.", []),
        ("Refuses what others have written.", [RELATIVE]),
        ("The setting asks for a renewal.", [ASKS]),
        ("Stops to watch the kind.", [INFINITIVE]),
        ("Stops watching the kind.", []),
        ("The most replicas of a function.", [MOST]),
        ("Most of the time is idle.", []),
        ("The CA (`ca`): it signs certificates.", []),
        ("The status tells this.", [TELLS]),
        ("Deletes objects that are not desired any more.", [NEGATION]),
        ("Returns None if the text is none.", [NEGATION]),
        ("Returns None if there is none.", []),
        ("It reads no more than one page.", []),
        ("Reads the pages, as far as there are any.", [NEGATION]),
        (" ".join(["word"] * 36) + ".", [LONG]),
        (" ".join(["word"] * 35) + ". " + " ".join(["Word"] * 35) + ".", []),
        ("Reads `those of` and ``that of``.", []),
        ("See [the list](https://example.com/that-of).", []),
    ],
)
def test_patterns(sentence: str, patterns: list[str]) -> None:
    assert [finding.pattern for finding in findings(sentence)] == patterns


PAGE = """\
# What a heading says

A paragraph
of two lines.
- An item.
- Another
  item.

| a cell | another |
|---|---|

    code: those of

```
more code
```

The end.
"""
MODULE = '''\
"""A module.

    code

End.
"""

def function(name: str = "those of") -> None:
    """Returns nothing.

    Args:
        name: The name,
            of the object.
        other: Another.

    Raises:
        Failure: There is no object.
    """
    option = Option("--name", help="The name.")  # beside code
    text = """
    those of"""
    # A comment
    # of two lines.
    raise Failure(
        f"{name} is missing; "
        "create it"
    )
'''


def test_page_paragraphs() -> None:
    assert [(line, text.strip()) for line, text in page_paragraphs(PAGE)] == [
        (3, "A paragraph of two lines."),
        (5, "An item."),
        (6, "Another item."),
        (9, "a cell"),
        (9, "another"),
        (18, "The end."),
    ]


def test_module_paragraphs() -> None:
    assert list(module_paragraphs(MODULE)) == [
        (1, "A module."),
        (5, "End."),
        (9, "Returns nothing."),
        (11, "Args:"),
        (12, "name: The name, of the object."),
        (14, "other: Another."),
        (16, "Raises:"),
        (17, "Failure: There is no object."),
        (19, "beside code"),
        (22, "A comment of two lines."),
        (19, "The name."),
        (24, "`x` is missing; create it"),
    ]


def test_only_files_with_more_findings_than_allowed_are_reported() -> None:
    two = [*findings("That was told, and is none.", line=7)]
    allowed = read_allowed("2 docs/old.md\n1 docs/worse.md\n")
    lines = excess({"docs/old.md": two, "docs/worse.md": two, "docs/new.md": two, "docs/good.md": []}, allowed)
    assert [line.split(" ")[0] for line in lines if not line.startswith(" ")] == ["docs/worse.md", "docs/new.md"]
    assert "  docs/new.md:7: thing that tells: That was told, and is none." in lines
