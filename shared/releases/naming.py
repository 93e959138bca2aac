"""The names and versions of cluster stack releases.

A release is identified by provider, stack name, Kubernetes minor version and version. Its name has two forms, which
differ only outside the stable channel: the dash form `docker-ferrol-1-27-v0-sha-hipstsw` (release tags,
ClusterStackReleases, folders) and the dot form `docker-ferrol-1-27-v0-sha.hipstsw` (ClusterClasses, chart archives,
metadata.yaml). Both forms are accepted everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

STABLE = "stable"

_NUMBER = r"(0|[1-9][0-9]{0,8})"
_WORD = r"([a-z0-9]{1,63})"  # without dash and dot, which separate the parts
_VERSION = re.compile(rf"v{_NUMBER}(?:-{_WORD}[.-]{_WORD})?")
_RELEASE = re.compile(rf"{_WORD}-{_WORD}-{_NUMBER}-{_NUMBER}-(v.+)")
PATTERN = rf"{_WORD}-{_WORD}-{_NUMBER}-{_NUMBER}-(?:{_VERSION.pattern})"
"""The regular expression of a whole name in either form, without anchors; RE2 accepts it."""
_IS_WORD = re.compile(_WORD)
_IS_MINOR = re.compile(rf"{_NUMBER}\.{_NUMBER}")


_RELEASE_KIND = "ClusterStackRelease"


def is_provider_release(kind: str) -> bool:
    """Returns whether a kind has the name of a provider's kind for releases: `<Provider>ClusterStackRelease`."""
    return kind.endswith(_RELEASE_KIND) and kind != _RELEASE_KIND


class InvalidName(ValueError):
    """A text is not the name of a release, or not a version."""


class IncomparableVersions(ValueError):
    """A comparison of versions of different channels, which have no order."""


@total_ordering
@dataclass(frozen=True, slots=True)
class StackVersion:
    """A version: `v3` in the stable channel, `v0-sha.hipstsw` in any other, with a patch.

    Versions of one channel are ordered by number, then by patch: numeric patches by value and before others, others as
    text. Comparing versions of two channels raises `IncomparableVersions`.
    """

    number: int
    channel: str = STABLE
    patch: str = ""

    def __post_init__(self) -> None:
        stable = self.channel == STABLE
        words = stable or (_IS_WORD.fullmatch(self.channel) and _IS_WORD.fullmatch(self.patch))
        if self.number < 0 or not words or (stable and self.patch):
            raise InvalidName(f"invalid version: number {self.number}, channel {self.channel!r}, patch {self.patch!r}")

    @classmethod
    def parse(cls, text: str) -> StackVersion:
        """Parses either form. Raises `InvalidName`."""
        match = _VERSION.fullmatch(text)
        if not match:
            raise InvalidName(f"invalid version {text!r}: must be v<number> or v<number>-<channel>.<patch>")
        number, channel, patch = match.groups()
        return cls(int(number), channel, patch) if channel else cls(int(number))

    @property
    def tag(self) -> str:
        """The dash form, `v0-sha-hipstsw`."""
        return self._format("-")

    @property
    def dotted(self) -> str:
        """The dot form, `v0-sha.hipstsw`."""
        return self._format(".")

    def _format(self, separator: str) -> str:
        suffix = "" if self.channel == STABLE else f"-{self.channel}{separator}{self.patch}"
        return f"v{self.number}{suffix}"

    def __str__(self) -> str:
        return self.dotted

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, StackVersion):
            return NotImplemented
        if self.channel != other.channel:
            raise IncomparableVersions(f"{self} and {other} have different channels")
        return self._rank() < other._rank()

    def _rank(self) -> tuple[int, bool, int, str]:
        numeric = self.patch.isdecimal()
        return self.number, not numeric, int(self.patch) if numeric else 0, self.patch


@dataclass(frozen=True, slots=True)
class ReleaseName:
    """The name of a release. `kubernetes` is `major.minor`, such as "1.27". Raises `InvalidName`."""

    provider: str
    name: str
    kubernetes: str
    version: StackVersion

    def __post_init__(self) -> None:
        for field, text, rule in (
            ("provider", self.provider, _IS_WORD),
            ("name", self.name, _IS_WORD),
            ("Kubernetes version", self.kubernetes, _IS_MINOR),
        ):
            if not rule.fullmatch(text):
                raise InvalidName(f"invalid {field} {text!r} of a cluster stack")

    @classmethod
    def parse(cls, text: str) -> ReleaseName:
        """Parses either form. Raises `InvalidName`."""
        match = _RELEASE.fullmatch(text)
        if not match:
            raise InvalidName(
                f"invalid release name {text!r}: must be <provider>-<name>-<major>-<minor>-<version>, "
                "provider and name without dashes"
            )
        provider, name, major, minor, version = match.groups()
        return cls(provider, name, f"{major}.{minor}", StackVersion.parse(version))

    @classmethod
    def from_class_name(cls, text: str) -> ReleaseName | None:
        """Returns the release of a ClusterClass by the name of the class; None for other classes. Never raises."""
        try:
            return cls.parse(text)
        except InvalidName:
            return None

    @property
    def stack(self) -> str:
        """The part that the releases of one stack share, `docker-ferrol-1-27`."""
        return f"{self.provider}-{self.name}-{self.kubernetes.replace('.', '-')}"

    @property
    def tag(self) -> str:
        """The dash form: release tag, ClusterStackRelease name, folder name."""
        return f"{self.stack}-{self.version.tag}"

    @property
    def class_name(self) -> str:
        """The dot form: name of the ClusterClass."""
        return f"{self.stack}-{self.version.dotted}"

    @property
    def class_chart(self) -> str:
        """File name of the ClusterClass chart."""
        return f"{self.stack}-cluster-class-{self.version.dotted}.tgz"

    @property
    def addon_chart_prefix(self) -> str:
        """The prefix of file names of addon charts of this stack; the version of the addons follows."""
        return f"{self.stack}-cluster-addon-"

    def addon_chart(self, version: StackVersion) -> str:
        """Returns the file name of the addon chart; `version` is the version of the addons, not of the stack."""
        return f"{self.addon_chart_prefix}{version.dotted}.tgz"

    def __str__(self) -> str:
        return self.tag
