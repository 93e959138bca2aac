"""Versions of providers, and which of them is the latest. Numbers are those of the acceptance list."""

from __future__ import annotations

import random

import pytest

from shared.components.errors import ComponentsError
from shared.components.metadata import ProviderMetadata, Series
from shared.components.versions import downgrade_refusal, latest
from shared.semver import Version, highest
from shared.semver import parse as version


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("v1.2.3", Version(1, 2, 3)),
        ("1.2.3", Version(1, 2, 3)),
        ("v1.10.0-rc.1", Version(1, 10, 0, "rc.1")),
        ("v1.2.3+build.5", Version(1, 2, 3)),
        ("v999.9.2", Version(999, 9, 2)),
    ],
)
def test_semantic_version_is_parsed(text: str, found: Version) -> None:
    assert version(text) == found


@pytest.mark.parametrize(
    "text",
    ["", "one", "v1", "v1.2", "1.2.3.4", "v01.2.3", "v1.2.3-", "v1.2.3-a..b", "v1.2.3-01", "v1.2.x", "v" + "9" * 300],
)
def test_text_that_is_no_semantic_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="could not parse"):
        version(text)


def test_versions_are_ordered_as_semver() -> None:
    """As semver.org has it in its section 11."""
    before = ["alpha", "alpha.1", "alpha.beta", "beta", "beta.2", "beta.11", "rc.1"]
    texts = [*(f"v1.0.0-{each}" for each in before), "v1.0.0", "v1.0.1", "v1.9.0", "v1.10.0", "v2.0.0"]
    assert sorted(random.Random(1).sample(texts, len(texts)), key=version) == texts


@pytest.mark.parametrize(
    ("texts", "found"),  # CR10
    [(["1.0.0"], "1.0.0"), (["1.0.0", "2.0.0", "1.5.0"], "2.0.0")],
)
def test_cr10_highest_version_is_found(texts: list[str], found: str) -> None:
    assert highest(texts) == found


@pytest.mark.parametrize("texts", [[], ["1.0.0", "bad"]])
def test_cr10_highest_of_no_or_invalid_versions_is_an_error(texts: list[str]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever says that there is none
        highest(texts)


@pytest.mark.parametrize(
    ("installed", "wanted", "passes"),  # PF18
    [
        ("v1.9.0", "v2.0.0", True),
        ("v1.9.0", "v1.10.0", True),
        ("v2.0.0", "v1.9.0", False),
        ("v1.10.0", "v1.9.0", False),
        ("v1.10.1", "v1.10.0", True),
        ("v1.10.0", "v1.10.0", True),
    ],
)
def test_pf18_downgrade_beyond_the_release_series_is_refused(installed: str, wanted: str, passes: bool) -> None:
    assert (downgrade_refusal(installed, wanted) == "") is passes


def test_downgrade_message_names_both_versions() -> None:
    assert downgrade_refusal("v1.9.3", "v1.9.1") == ""
    assert downgrade_refusal("", "v1.9.1") == ""
    message = downgrade_refusal("v1.10.0", "v1.9.9")
    assert "v1.10.0" in message
    assert "v1.9.9" in message


ANY = ProviderMetadata(())


@pytest.mark.parametrize(
    ("tags", "published", "found"),
    [
        ("0.4.2", "0.4.2", "0.4.2"),
        ("0.5.0 0.4.2", "0.4.2", "0.4.2"),
        ("0.6.0 0.5.0 0.4.2", "0.4.2", "0.4.2"),
        ("0.9.0 0.8.0 0.7.0 0.6.0 0.5.0 0.4.2", "0.4.2", None),
        ("0.5.0-alpha.3 0.5.0-alpha.2 0.5.0-alpha.1 0.4.2", "0.4.2", "0.4.2"),
        ("0.7.0 0.6.0 0.5.0 0.4.2", "0.5.0 0.4.2", "0.5.0"),
        ("0.6.0 0.5.0-alpha.1 0.4.2", "0.5.0-alpha.1 0.4.2", "0.4.2"),
        ("0.5.0 0.4.2", "", None),
        ("0.5.0-alpha.1 0.5.0-alpha.0", "0.5.0-alpha.0", "0.5.0-alpha.0"),
        ("nightly 0.4.2", "nightly 0.4.2", "0.4.2"),
        ("", "", None),
    ],
)
def test_latest_is_the_newest_published_release(tags: str, published: str, found: str | None) -> None:
    there = published.split()

    def ask() -> str:
        return latest(tags.split(), lambda tag: ANY if tag in there else None, ["v1beta2", "v1beta1"])

    if found is None:
        with pytest.raises(ComponentsError, match="no published version"):
            ask()
    else:
        assert ask() == found


def metadata_of(*series: tuple[int, int, str]) -> ProviderMetadata:
    return ProviderMetadata(tuple(Series(*entry) for entry in series))


@pytest.mark.parametrize(
    ("tags", "metadata", "found"),
    [
        ("1.2.0 1.1.5 1.1.4", metadata_of((1, 2, "v1beta3"), (1, 1, "v1beta2"), (1, 0, "v1beta2")), "1.1.5"),
        ("1.2.0 1.1.5", metadata_of((1, 2, "v1beta2"), (1, 1, "v1beta2")), "1.2.0"),
        ("1.2.0 1.1.5", metadata_of((1, 2, "v9"), (1, 1, "v8")), "1.2.0"),
        ("1.2.0 1.0.5", metadata_of((1, 2, "v1beta3"), (1, 0, "v1beta1")), "1.0.5"),
    ],
)
def test_up14_latest_keeps_the_best_contract(tags: str, metadata: ProviderMetadata, found: str) -> None:
    assert latest(tags.split(), lambda _tag: metadata, ["v1beta2", "v1beta1"]) == found
