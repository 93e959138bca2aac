"""The options of a HelmReleaseProxy that Helm's actions read, with Helm's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from shared.components.durations import whole_seconds
from shared.kube import dig

_TIMEOUT: Final = 600.0
_MAX_HISTORY: Final = 10
_MAX_DESCRIPTION: Final = 500


@dataclass(frozen=True)
class Options:
    """The options of one release.

    An explicit `createNamespace: false` or `maxHistory: 0` counts, unlike in Cluster API Addon Provider Helm.
    """

    disable_hooks: bool = False
    wait: bool = False
    wait_for_jobs: bool = False
    atomic: bool = False
    """Whether a failed installation is removed, and a failed upgrade rolled back; implies `wait`."""
    timeout: float = _TIMEOUT
    """The seconds until objects and hooks have to be ready."""
    skip_crds: bool = False
    include_crds: bool = False
    """Whether the objects of `crds/` folders belong to the release; `skip_crds` precedes."""
    force: bool = False
    """Whether an upgrade deletes and recreates objects whose change is rejected as immutable."""
    take_ownership: bool = False
    create_namespace: bool = True
    reuse_values: bool = False
    """Whether values of the previous revision stay where the new ones do not replace them."""
    max_history: int = _MAX_HISTORY
    keep_history: bool = False
    description: str = ""
    """The text for the record of an uninstalled release."""

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Options:
        """Reads the options of a HelmReleaseProxy. Raises `ValueError` for an invalid timeout."""
        options, upgrade = dig(spec, "options", {}), dig(spec, "options.upgrade", {})
        timeout, most = options.get("timeout"), upgrade.get("maxHistory")
        reuses = upgrade.get("reuseValues") is True or upgrade.get("resetThenReuseValues") is True
        return cls(
            disable_hooks=options.get("disableHooks") is True,
            wait=options.get("wait") is True or options.get("atomic") is True,
            atomic=options.get("atomic") is True,
            wait_for_jobs=options.get("waitForJobs") is True,
            timeout=float(whole_seconds(timeout)) if isinstance(timeout, str) and timeout else _TIMEOUT,
            skip_crds=options.get("skipCRDs") is True,
            include_crds=dig(options, "install.includeCRDs") is True,
            force=upgrade.get("force") is True,
            take_ownership=options.get("takeOwnership") is True,
            create_namespace=dig(options, "install.createNamespace") is not False,
            reuse_values=reuses and upgrade.get("resetValues") is not True,
            max_history=most if isinstance(most, int) and not isinstance(most, bool) and most >= 0 else _MAX_HISTORY,
            keep_history=dig(options, "uninstall.keepHistory") is True,
            description=str(dig(options, "uninstall.description", ""))[:_MAX_DESCRIPTION],
        )
