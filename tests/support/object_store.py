"""A real object store for tests: one server for the session, an empty bucket for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from shared.storage import ObjectStore
from tests.support.moto_server import create_bucket, start, wait_ready
from tests.support.until import HANGS

_NUMBERS = itertools.count(1)

KEYS = {"CAPI_FUNCTIONS_STORE_KEY": "k" * 32, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
"""The secret settings of the store."""


@pytest.fixture(scope="session")
def object_store_url() -> Iterator[str]:
    """Returns the address of the server; its process ends with the session, or with this process."""
    server = start()
    try:
        wait_ready(server.url, HANGS)
        yield server.url
    finally:
        server.stop()


@pytest.fixture
def object_store(object_store_url: str, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """A store with a bucket of its own; the environment describes the same one (`ObjectStore.from_env`)."""
    bucket = f"test-{next(_NUMBERS)}"
    for name, value in {
        "S3_ENDPOINT_URL": object_store_url,
        "CAPI_FUNCTIONS_BUCKET": bucket,
        **KEYS,
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    create_bucket(object_store_url, bucket)
    return ObjectStore.from_env()
