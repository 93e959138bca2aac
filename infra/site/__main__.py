"""`make docs`: builds the documentation site to out/site/html. Pages open from the folder, also without network."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
CONFIG = Path(__file__).with_name("zensical.toml")
PAGES = ("*.md", "docs/**/*.md", "examples/**/*.md", "tests/abuse/README.md", "docs/**/*.png", "docs/**/*.svg")
"""The files of the site. It has the folders of the repository, so that links between pages work in both."""


def main() -> None:
    """Builds the site, and exits with 1 if a link is broken."""
    folder = PROJECT / "out/site"
    shutil.rmtree(folder, ignore_errors=True)
    for page in pages():
        target = folder / "source" / page
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PROJECT / page, target)
    shutil.copyfile(CONFIG, folder / CONFIG.name)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(folder / CONFIG.name)]
    if subprocess.run(command, check=False).returncode:
        sys.exit(1)
    print(f"open {folder / 'html/index.html'}")


def pages() -> list[Path]:
    """Returns the files of the site, relative to the project."""
    return sorted({path.relative_to(PROJECT) for pattern in PAGES for path in PROJECT.glob(pattern)})


if __name__ == "__main__":
    main()
