"""The cache whose values expire."""

from __future__ import annotations

from itertools import count

import pytest

from shared.ttl_cache import TTLCache


@pytest.mark.parametrize(("seconds", "second"), [(1e6, 0), (0.0, 1)], ids=["kept", "expired"])
def test_value_is_read_again_once_it_has_expired(seconds: float, second: int) -> None:
    cache, numbers = TTLCache(), count()
    assert [cache.get("key", seconds, lambda: next(numbers)) for _ in range(2)] == [0, second]


def test_each_key_has_its_own_value_until_it_is_forgotten() -> None:
    cache = TTLCache()
    assert [cache.get(key, 1e6, lambda key=key: key.upper()) for key in ("a", "b", "a")] == ["A", "B", "A"]  # type: ignore[misc]
    cache.forget("a")
    assert [cache.get(key, 1e6, lambda: "new") for key in ("a", "b")] == ["new", "B"]


def test_failed_read_is_repeated() -> None:
    cache = TTLCache()
    with pytest.raises(ZeroDivisionError):
        cache.get("key", 1e6, lambda: 1 / 0)
    assert cache.get("key", 1e6, lambda: 1) == 1
