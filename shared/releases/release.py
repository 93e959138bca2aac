"""What a stored release is: its name, its files by digest, and the rules that make it complete."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from shared.releases.metadata import Metadata, MetadataError, parse
from shared.releases.naming import ReleaseName

METADATA = "metadata.yaml"
VALUES_TEMPLATE = "cluster-addon-values.yaml"
STAGES = "clusteraddon.yaml"


class InvalidRelease(Exception):
    """A release that lacks something; `problems` maps a file's name to what is wrong with it."""

    def __init__(self, release: str, problems: Mapping[str, str]) -> None:
        listed = "; ".join(f"{file}: {problem}" for file, problem in problems.items())
        super().__init__(f"release {release} is not usable: {listed}")
        self.release, self.problems = release, dict(problems)


class Retagged(InvalidRelease):
    """A release whose files are others than when it was fetched first; `pin` is the key of what tells."""

    def __init__(self, release: str, files: Collection[str], pin: str) -> None:
        super().__init__(release, dict.fromkeys(files, "has changed since the release was fetched first"))
        self.args = (
            f"release {release} was published again with other content: {', '.join(sorted(files))}. It is not taken: "
            f"publish it as a new version, or delete {pin} from object storage to have it taken as it is now",
        )


@dataclass(frozen=True, slots=True)
class Blob:
    """Content of a file: sha256 in hexadecimal, and size in bytes."""

    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Release:
    """A complete release; the properties are names of files in it."""

    name: ReleaseName
    files: Mapping[str, Blob]
    metadata: Metadata

    @property
    def class_chart(self) -> str:
        """The Helm chart with the ClusterClass and its templates."""
        return self.name.class_chart

    @property
    def addon_chart(self) -> str:
        """One umbrella chart, or, when `multi_stage`, an archive of several chart folders."""
        return self.name.addon_chart(self.metadata.cluster_addon)

    @property
    def values_template(self) -> str | None:
        """The Go template of the umbrella chart's values, if the release has one."""
        return VALUES_TEMPLATE if VALUES_TEMPLATE in self.files else None

    @property
    def stages(self) -> str | None:
        """`clusteraddon.yaml`, if the release has one."""
        return STAGES if STAGES in self.files else None

    @property
    def multi_stage(self) -> bool:
        """Whether addons are applied in stages; the presence of `clusteraddon.yaml` alone decides."""
        return self.stages is not None

    @property
    def used(self) -> Mapping[str, Blob]:
        """The files that decide what is applied; others, such as signatures, may be added at any time."""
        names = {METADATA, self.class_chart, self.addon_chart, VALUES_TEMPLATE, STAGES}
        return {file: blob for file, blob in self.files.items() if file in names}

    def validate(self) -> None:
        """Raise `InvalidRelease` that lists every required file that is missing or empty."""
        problems = {}
        for file in (METADATA, self.class_chart, self.addon_chart):
            if file not in self.files:
                problems[file] = self._missing(file)
            elif self.files[file].size == 0:
                problems[file] = "empty"
        if problems:
            raise InvalidRelease(self.name.tag, problems)

    def _missing(self, file: str) -> str:
        """What to say; for the addon chart also which others are there, as metadata.yaml and archive may differ."""
        others = [other for other in sorted(self.files) if other.startswith(self.name.addon_chart_prefix)]
        return f"missing (there is {', '.join(others)})" if file == self.addon_chart and others else "missing"


def assemble(name: ReleaseName, files: Mapping[str, Blob], metadata: bytes | None) -> Release:
    """A validated release from its files and the bytes of its metadata.yaml. Raises `InvalidRelease`."""
    if metadata is None:
        raise InvalidRelease(name.tag, {METADATA: "missing"})
    try:
        release = Release(name, files, parse(metadata, name.tag))
    except MetadataError as error:
        raise InvalidRelease(name.tag, {METADATA: f"{error.field}: {error.problem}"}) from error
    release.validate()
    return release
