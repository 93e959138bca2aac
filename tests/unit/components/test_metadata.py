"""Valid and invalid metadata.yaml."""

from __future__ import annotations

import pytest

from shared.components.errors import IncompatibleVersion
from shared.components.metadata import parse

GOOD = b"""apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Metadata
releaseSeries:
- {major: 1, minor: 14, contract: v1beta2}
- {major: 1, minor: 10, contract: v1beta1}
"""


def test_release_series_are_parsed() -> None:
    found = parse(GOOD, "x")
    assert [found.contract(1, minor) for minor in (14, 10, 9)] == ["v1beta2", "v1beta1", ""]


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "not a single object"),
        (b"a: [", "not YAML"),
        (b"\xff\xfe", "not YAML"),
        (b"[1]", "not a single object"),
        (GOOD + b"---\n" + GOOD, "not a single object"),
        (GOOD + b"---\n" + GOOD + b"---\na: [", "not a single object"),  # not read to its end
        (GOOD.replace(b"v1alpha3", b"v1alpha9"), "v1alpha9"),
        (GOOD.replace(b"kind: Metadata", b"kind: Other"), "Other"),
        (GOOD.partition(b"- {")[0], "releaseSeries is empty"),
        (GOOD.replace(b"minor: 14", b"minor: x"), "releaseSeries[0]"),
        (GOOD.replace(b"minor: 14", b"minor: true"), "releaseSeries[0]"),
        (GOOD.replace(b"contract: v1beta1", b"contract: 1"), "releaseSeries[1]"),
        (b"a: " + b"[" * 5000, "not YAML"),
        (b"x" * 2_000_000, "larger"),
    ],
)
def test_invalid_metadata_is_refused(data: bytes, word: str) -> None:
    with pytest.raises(IncompatibleVersion) as error:
        parse(data, "somewhere")
    assert word in str(error.value)
    assert "somewhere" in str(error.value)
