"""The profiles of an installation, which select functions by the other programs of the management cluster.

A function declares its profiles. Profiles combine: `addons` and `providers` together run the functions of both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

NAMES: Mapping[str, str] = {
    "addons": "addons of Clusters, their releases, cluster stacks: for use beside a Cluster API core",
    "providers": "the lifecycle of Cluster API providers, beside or before a core",
    "kubeconfig": "kubeconfigs of Clusters without a control-plane provider; beside a core only their renewal",
    "kind": "KINDClusters, on the machine of the functions",
    "standalone": "addons, kubeconfigs, Clusters and KINDClusters: where no Cluster API core runs",
    "all": "every function",
}
"""The profiles by name, each with its purpose."""

ADDONS = ("addons", "standalone")
PROVIDERS = ("providers",)
KUBECONFIG = ("kubeconfig", "standalone")
CLUSTERS = ("standalone",)
KIND_CLUSTERS = ("kind", "standalone")
ALWAYS = ("addons", "providers", "kubeconfig", "kind", "standalone")


def parse(text: str) -> tuple[str, ...]:
    """Returns the profiles in a text, separated by commas or whitespace; `all` for an empty one.

    Raises ValueError for a profile that does not exist.
    """
    selected = tuple(text.replace(",", " ").split()) or ("all",)
    if unknown := sorted(set(selected) - NAMES.keys()):
        raise ValueError(f"there is no profile {unknown[0]}; the profiles are: {', '.join(NAMES)}")
    return selected


def belongs(declared: Iterable[str], selected: Collection[str]) -> bool:
    """Returns whether a function with the profiles `declared` runs in an installation with the profiles `selected`."""
    return "all" in selected or not set(selected).isdisjoint(declared)
