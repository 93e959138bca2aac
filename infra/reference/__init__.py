"""The pages of docs/reference, generated from the code: `infra.generate` writes them, `make check` compares them."""

from __future__ import annotations

from . import commands, crds, reasons


def pages() -> dict[str, str]:
    """Returns the text of each page by its path in the project."""
    texts = {
        "commands": commands.page(),
        "crds": crds.page(),
        "reasons": reasons.page(),
    }
    return {f"docs/reference/{name}.md": text for name, text in texts.items()}
