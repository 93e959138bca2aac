"""Redaction of secrets from texts and statuses, and the forms of a secret."""

from __future__ import annotations

import pytest

from functions.provider_preflight.observe import Observed
from shared.providers.error_reporting import sensitive_values
from shared.providers.inputs import Inputs
from shared.redaction import WITHHELD, redact, redact_status, redactor


@pytest.mark.parametrize(
    ("text", "values", "left"),
    [
        ("Value: 4815162342, want text", ["4815162342"], "Value: …, want text"),
        ("a pass, a password", ["pass", "password"], "a …, a …"),
        ("too short: abc", ["abc"], "too short: abc"),
        ("nothing: ", [""], "nothing: "),
        ("cut off: hunt…", ["hunter2"], "cut off: …"),
        ("cut off: hun…", ["hunter2"], "cut off: hun…"),
        ("not cut off: hunt", ["hunter2"], "not cut off: hunt"),
        ("ends: hunter2", ["hunter2"], "ends: …"),
        ("cut within: hunt ... nter2 and on", ["hunter2"], "cut within:  ...  and on"),
        ('escaped: "a\\"b\\\\c\\n"', ['a"b\\c\n'], 'escaped: "…"'),
        ("escaped by Go: a\\u003cb\\u0026c", ["a<b&c"], "escaped by Go: …"),
        ("not ASCII: p\\u00e4ss", ["päss"], "not ASCII: …"),
        ("encoded: aHVudGVyMg==", ["hunter2"], "encoded: …"),
        ("in a URL: ?p=hun%2Fter%202&q=hun%2Fter+2", ["hun/ter 2"], "in a URL: ?p=…&q=…"),
    ],
)
def test_redact_replaces_values_in_all_encodings_and_truncations(text: str, values: list[str], left: str) -> None:
    assert redact(text, values) == left


@pytest.mark.parametrize("values", [[f"value-{number}" for number in range(6_000)], ["x" * 2_000_000]])
def test_text_is_withheld_from_more_values_than_can_be_searched(values: list[str]) -> None:
    redacted = redactor(values)
    assert redacted("it has value-5 and more") == WITHHELD
    assert redacted("") == ""


def test_redactor_finds_each_of_many_values_in_each_text() -> None:
    redacted = redactor([f"value-{number:04}" for number in range(2_000)])
    assert {redacted(f"of value-{number:04}: cut off, valu…") for number in (0, 7, 1_999)} == {"of …: cut off, …"}


RESOURCE = {"name": "docker", "error": "no docker", "waiting": "for docker"}


def test_redact_status_changes_text_fields_only() -> None:
    condition = {"type": "Ready", "status": "True", "reason": "docker", "message": "of docker"}
    status = {"conditions": [condition], "resources": [RESOURCE], "version": 1}
    found = redact_status(status, redactor(["docker"]))
    assert found["conditions"] == [{**condition, "message": "of …"}]
    assert found["resources"] == [{"name": "docker", "error": "no …", "waiting": "for …"}]
    assert found["version"] == 1


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [
        ("PASSWORD", "hunter2", {"hunter2"}),
        ("KEY", "-- begin\nabcd\n-- end\n", {"-- begin\nabcd\n-- end\n", "-- begin", "abcd", "-- end"}),
        ("PIN", "0123456", {"0123456", "42798"}),
        ("PIN", "0x1F", {"0x1F", "31"}),
        ("PIN", "1: [", {"1: ["}),
        ("images", "all: {repository: mirror}", set()),
        ("ca.crt", "-- begin", set()),
    ],
)
def test_secret_values_include_the_forms_that_parsers_quote(name: str, value: str, known: set[str]) -> None:
    assert sensitive_values(Observed(None, Inputs({name: value}))) == known
