"""The generated pages of docs/reference and the plots of docs/figures, which `infra.generate` writes."""

from __future__ import annotations

from . import commands, crds, metrics, plots, reasons


def pages() -> dict[str, str]:
    """Returns the text of each page by its path in the project."""
    texts = {
        "commands": commands.page(),
        "crds": crds.page(),
        "metrics": metrics.page(),
        "reasons": reasons.page(),
    }
    return {f"docs/reference/{name}.md": text for name, text in texts.items()} | plots.pages()
