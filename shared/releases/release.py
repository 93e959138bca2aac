"""A release: its name, its files by digest, and the files that it must have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from shared.releases.metadata import MetadataError, ReleaseMetadata, parse
from shared.releases.naming import ReleaseName

METADATA = "metadata.yaml"
VALUES_TEMPLATE = "cluster-addon-values.yaml"
STAGES = "clusteraddon.yaml"


class InvalidRelease(Exception):
    """A release is incomplete or inconsistent; `problems` has the problem of each file by its name."""

    def __init__(self, release: str, problems: Mapping[str, str]) -> None:
        listed = "; ".join(f"{file}: {problem}" for file, problem in problems.items())
        super().__init__(f"release {release} is not usable: {listed}")
        self.release, self.problems = release, dict(problems)


class Retagged(InvalidRelease):
    """A release was published again with other files; `pin` is the key of the record of its first files."""

    def __init__(self, release: str, files: Collection[str], pin: str) -> None:
        super().__init__(release, dict.fromkeys(files, "has changed since the release was first fetched"))
        self.args = (
            f"release {release} was published again with other content, so it is refused: "
            f"{', '.join(sorted(files))}. Publish it as a new version, or delete {pin} from object storage to accept "
            "the new content",
        )


@dataclass(frozen=True, slots=True)
class Blob:
    """The content of a file: its sha256 in hexadecimal, and its size in bytes."""

    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Release:
    """A complete release; its properties are names of its files."""

    name: ReleaseName
    files: Mapping[str, Blob]
    metadata: ReleaseMetadata

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
    def applied_files(self) -> Mapping[str, Blob]:
        """The files that decide which objects are applied; others, such as signatures, may be added later."""
        names = {METADATA, self.class_chart, self.addon_chart, VALUES_TEMPLATE, STAGES}
        return {file: blob for file, blob in self.files.items() if file in names}

    def validate(self) -> None:
        """Raises `InvalidRelease` with all required files that are missing or empty."""
        problems = {}
        for file in (METADATA, self.class_chart, self.addon_chart):
            if file not in self.files:
                problems[file] = self._missing(file)
            elif self.files[file].size == 0:
                problems[file] = "empty"
        if problems:
            raise InvalidRelease(self.name.tag, problems)

    def _missing(self, file: str) -> str:
        """Returns the problem of a missing file; for the addon chart with the charts of other versions."""
        others = [other for other in sorted(self.files) if other.startswith(self.name.addon_chart_prefix)]
        return f"missing (the release has {', '.join(others)})" if file == self.addon_chart and others else "missing"


def assemble(name: ReleaseName, files: Mapping[str, Blob], metadata: bytes | None) -> Release:
    """Returns the release with these files; `metadata` is the text of metadata.yaml. Raises `InvalidRelease`."""
    if metadata is None:
        raise InvalidRelease(name.tag, {METADATA: "missing"})
    try:
        release = Release(name, files, parse(metadata, name.tag))
    except MetadataError as error:
        raise InvalidRelease(name.tag, {METADATA: f"{error.field}: {error.problem}"}) from error
    release.validate()
    return release
