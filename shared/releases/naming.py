"""The grammar of cluster stack names, on which everything about releases hangs.

A release is identified by provider, stack name, Kubernetes minor and version. One identity has two spellings
that differ only for versions outside the stable channel: with dashes (`docker-ferrol-1-27-v0-sha-hipstsw`:
release tags, ClusterStackRelease names, folders) and with a dot (`docker-ferrol-1-27-v0-sha.hipstsw`:
ClusterClass names, chart archives, metadata.yaml). Both are read everywhere; each place writes its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

STABLE = "stable"

_NUMBER = r"(0|[1-9][0-9]{0,8})"
_WORD = r"([a-z0-9]{1,63})"  # no dash (it separates) and no dot: what Kubernetes names allow besides
_VERSION = re.compile(rf"v{_NUMBER}(?:-{_WORD}[.-]{_WORD})?")
_RELEASE = re.compile(rf"{_WORD}-{_WORD}-{_NUMBER}-{_NUMBER}-(v.+)")
_IS_WORD = re.compile(_WORD)
_IS_MINOR = re.compile(rf"{_NUMBER}\.{_NUMBER}")


class InvalidName(ValueError):
    """A text, or parts, that do not follow the grammar."""


class IncomparableVersions(ValueError):
    """Two versions of different channels: neither is the newer one."""


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """`v3` (stable) or `v0-sha.hipstsw` (any other channel, with a patch).

    Ordered within one channel by number, then patch: numbers as numbers and before words, words as text.
    Comparing two channels raises `IncomparableVersions`.
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
    def parse(cls, text: str) -> Version:
        """Read either spelling. Raises `InvalidName`."""
        match = _VERSION.fullmatch(text)
        if not match:
            raise InvalidName(f"invalid version {text!r}: want v<number> or v<number>-<channel>.<patch>")
        number, channel, patch = match.groups()
        return cls(int(number), channel, patch) if channel else cls(int(number))

    @property
    def tag(self) -> str:
        """The dash form, `v0-sha-hipstsw`."""
        return self._spelled("-")

    @property
    def dotted(self) -> str:
        """The dot form, `v0-sha.hipstsw`."""
        return self._spelled(".")

    def _spelled(self, separator: str) -> str:
        suffix = "" if self.channel == STABLE else f"-{self.channel}{separator}{self.patch}"
        return f"v{self.number}{suffix}"

    def __str__(self) -> str:
        return self.dotted

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Version):
            return NotImplemented
        if self.channel != other.channel:
            raise IncomparableVersions(f"{self} and {other} are of different channels")
        return self._rank() < other._rank()

    def _rank(self) -> tuple[int, bool, int, str]:
        numeric = self.patch.isdecimal()
        return self.number, not numeric, int(self.patch) if numeric else 0, self.patch


@dataclass(frozen=True, slots=True)
class ReleaseName:
    """The identity of a release. `kubernetes` is `major.minor`, such as "1.27". Raises `InvalidName`."""

    provider: str
    name: str
    kubernetes: str
    version: Version

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
        """Read either spelling. Raises `InvalidName`."""
        match = _RELEASE.fullmatch(text)
        if not match:
            raise InvalidName(
                f"invalid release name {text!r}: want <provider>-<name>-<major>-<minor>-<version>, "
                "provider and name without dashes"
            )
        provider, name, major, minor, version = match.groups()
        return cls(provider, name, f"{major}.{minor}", Version.parse(version))

    @classmethod
    def from_class_name(cls, text: str) -> ReleaseName | None:
        """The release that a ClusterClass of this name belongs to; None for any other class. Never raises."""
        try:
            return cls.parse(text)
        except InvalidName:
            return None

    @property
    def stack(self) -> str:
        """What the releases of one stack have in common, `docker-ferrol-1-27`."""
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
        """How the file name of an addon chart of this stack begins; the addons' own version follows."""
        return f"{self.stack}-cluster-addon-"

    def addon_chart(self, version: Version) -> str:
        """File name of the addon chart; `version` is the addons' own, which may lag behind the stack's."""
        return f"{self.addon_chart_prefix}{version.dotted}.tgz"

    def __str__(self) -> str:
        return self.tag
