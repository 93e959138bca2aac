"""Several sources as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shared.download import File, ReleaseNotFound, SourceError

from .port import Listing, Source


@dataclass(frozen=True, slots=True)
class Several:
    """Asked in order; the first that has a release is where it comes from."""

    sources: tuple[Source, ...]

    def fetch(self, tag: str) -> Iterator[File]:
        """See `Source.fetch`.

        Only a source that says it has no such release passes the question on. One that is down does not: what a later
        one has under this tag may be another release, and would stay in storage.
        """
        absences = []
        for source in self.sources:
            files = source.fetch(tag)
            try:
                first = next(files, None)
            except ReleaseNotFound as absence:
                absences.append(str(absence))
                continue
            if first is not None:
                yield first
                yield from files
            return
        raise ReleaseNotFound(tag, "any source: " + "; ".join(absences))

    def list(self) -> Sequence[str]:
        """See `Source.list`. One that fails does not hide what the others have, unless all fail."""
        names: set[str] = set()
        problems: list[SourceError] = []
        for source in self.sources:
            try:
                listed = source.list()
            except SourceError as error:
                problems.append(error)
                continue
            names.update(listed)
            if isinstance(listed, Listing) and listed.problem:
                problems.append(SourceError(listed.problem, transient=True))
        if problems and len(problems) == len(self.sources) and not names:
            # The one that can be asked again first decides when.
            raise min(problems, key=lambda problem: problem.retry_after or 0.0)
        return Listing(sorted(names), "; ".join(map(str, problems)))
