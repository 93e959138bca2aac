"""Gets programs that a command needs, with progress on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.markup import escape

from infra.cli.terminal.output import err


@contextmanager
def helm_when_needed() -> Iterator[None]:
    """Provides the helm program to charts within the block; downloads or builds it when a chart needs it."""
    from infra.local.helm import helm
    from shared.charts import provide_helm

    provide_helm(lambda: helm(lambda line: err.print(escape(line))))
    try:
        yield
    finally:
        provide_helm(None)
