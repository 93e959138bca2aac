"""A chain of sources, used as one source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shared.download import File, Listing, ReleaseNotFound, SourceError

from .port import Source


@dataclass(frozen=True, slots=True)
class SourceChain:
    """Sources in order: a release comes from the first that has it."""

    sources: tuple[Source, ...]

    def fetch(self, tag: str) -> Iterator[File]:
        """See `Source.fetch`.

        The next source is tried only if the previous source answers that it does not have the release. If a source
        fails, the chain fails, because a later source may have another release under this tag, which would stay in
        storage.
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
        """See `Source.list`. Sources that fail are left out, unless all fail."""
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
            # The chain can be retried as soon as one source accepts requests again.
            raise min(problems, key=lambda problem: problem.retry_after or 0.0)
        return Listing(sorted(names), "; ".join(map(str, problems)))
