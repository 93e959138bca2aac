"""Which Secrets may have credentials for a repository."""

from __future__ import annotations

import pytest

from shared.download import SourceError
from shared.helm_charts.access import of_type
from tests.support import objects


@pytest.mark.parametrize("type_", [None, "Opaque", "kubernetes.io/basic-auth"])
def test_secret_of_a_type_that_is_for_credentials_is_used(type_: str | None) -> None:
    secret = {**objects.secret("login", "ns"), "type": type_}
    assert of_type(secret, ("Opaque", "kubernetes.io/basic-auth")) is secret


@pytest.mark.parametrize("type_", ["kubernetes.io/service-account-token", "kubernetes.io/tls", "opaque"])
def test_secret_of_another_type_is_refused(type_: str) -> None:
    with pytest.raises(
        SourceError, match=f"Secret ns/login has the type {type_}: use a Secret of type Opaque"
    ) as found:
        of_type({**objects.secret("login", "ns"), "type": type_}, ("Opaque",))
    assert not found.value.transient
