"""tests/support/messages.txt has every message that can reach a user."""

from __future__ import annotations

import ast

import pytest

from tests.support import messages

TEXTS = [
    ('raise Failure(f"Cluster {key} is gone")', ["Cluster {key} is gone"]),
    ('raise Failure("a b" if x else f"c {d}") from error', ["a b", "c {d}"]),
    ('raise RuntimeError("a bug here")', []),
    ("raise error", []),
    ('set_false(TYPE, "Reason", "the message is this")', ["the message is this"]),
    ('f(message=prefix + "the rest")', ["the rest"]),
    ('hint = "do this now" or other', ["do this now"]),
    ('log("no message here")', []),
]


@pytest.mark.parametrize(("code", "texts"), TEXTS)
def test_messages_of_code(code: str, texts: list[str]) -> None:
    signatures = {"set_false": ["type", "reason", "message"]}
    assert [text for node in messages._given(ast.parse(code), signatures) for text in messages._texts(node)] == texts


def test_file_has_all_messages() -> None:
    assert messages.FILE.read_text() == messages.collect(), "reread them, and run `python -m tests.support.messages`"


def test_messages_of_all_kinds_are_collected() -> None:
    collected = messages.FILE.read_text()
    for message in (
        "the Cluster is paused",  # an answer of a function
        "no release is ready yet",  # a condition
        "these applied fields belonged to other field managers",  # an event
        "no explanation of the reason",  # an error of a command
        "is not a condition such as Available",  # wrong usage
        "the API server does not accept this token",  # the console
    ):
        assert message in collected
