"""Provides the helm program to charts that need it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def helm_when_needed(progress: Callable[[str], None]) -> Iterator[None]:
    """Provides the helm program to charts within the block; downloads or builds it when a chart needs it.

    `progress` receives the lines of a download or build.
    """
    from infra.local.helm import helm
    from shared.charts import provide_helm

    provide_helm(lambda: helm(progress))
    try:
        yield
    finally:
        provide_helm(None)
