"""Which objects a class chart may contain.

The author of a chart must not gain more than a class of Clusters. Functions apply the objects with their own rights, so
a chart may contain what a class consists of, and nothing else:

- ClusterClasses, and kinds named `*Template` in the groups of Cluster API's contracts, or whose CRD has the label of a
  contract (Cluster API book, "Provider contracts"),
- ConfigMaps and Secrets that one of these refers to, unless their content, name or labels grant something,
- kinds that the setting `CLASS_CHART_KINDS` lists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence

from shared.api.conditions import abridged
from shared.api.names import CONTROL_PLANE_CERTIFICATES
from shared.api.resources import CLUSTER_CLASS, CONFIG_MAP, SECRET
from shared.kube import Object, dig
from shared.kube.resources import BUILT_IN_GROUPS, split_api_version
from shared.manifests import identity
from shared.settings import CLASSES, SETTINGS

GROUPS = tuple(f"{role}.cluster.x-k8s.io" for role in ("infrastructure", "controlplane", "bootstrap"))
"""The API groups of Cluster API's contracts."""

TEMPLATE = "Template"
"""The ending of the kinds from which Cluster API clones objects."""

_SETTING = "CLASS_CHART_KINDS"
_LISTED = 5
_CONFIG = ((CONFIG_MAP.group, CONFIG_MAP.kind), (SECRET.group, SECRET.kind))
_OF_CLUSTERS = tuple(f"-{purpose}" for purpose in (*CONTROL_PLANE_CERTIFICATES, "kubeconfig", "apiserver-etcd-client"))
"""The endings of the Secrets that Cluster API reads by the name of a Cluster."""
_HARMLESS_LABELS = ("app.kubernetes.io/", "helm.sh/")

FollowsContract = Callable[[str, str], bool]
"""Returns whether the CRD of an (apiVersion, kind) has the label of a contract; True if the kind is not served yet."""


def refuse(objects: Sequence[Object], stack: str, follows_contract: FollowsContract) -> str:
    """Returns why the objects of a class chart must not be applied, and the way out; empty if they may be.

    Args:
        objects: The rendered objects.
        stack: The name of the cluster stack, which is Helm's release name.
        follows_contract: Decides about kinds named `*Template` in other groups.
    """
    extra = _extra_kinds()
    consists = [obj for obj in objects if _is_of_class(obj, follows_contract)]
    texts = json.dumps(consists, ensure_ascii=False)
    refused = []
    for obj in objects:
        if obj in consists or _kind(obj) in extra:
            continue
        reason = (
            _config_refusal(obj, stack, texts) if _kind(obj) in _CONFIG else "class charts must not contain this kind"
        )
        if reason:
            refused.append((obj, reason))
    if not refused:
        return ""
    named = abridged([f"{identity(obj)}: {reason}" for obj, reason in refused], _LISTED)
    kinds = " ".join(sorted({".".join(filter(None, reversed(_kind(obj)))) for obj, _ in refused[:_LISTED]}))
    return (
        f"the chart must not contain {named}. Nothing of the chart is applied: remove these objects from it, or "
        f"allow their kinds with {_SETTING}={kinds} ({CLASSES.where})"
    )


def may_be_of_class(group: str, kind: str) -> bool:
    """Returns whether class charts may contain objects of a kind, judged by its name.

    Objects of other kinds are not pruned, because only a user can have added them to an inventory.
    """
    templates = kind.endswith(TEMPLATE) and group not in BUILT_IN_GROUPS
    return templates or (group, kind) in ((CLUSTER_CLASS.group, CLUSTER_CLASS.kind), *_CONFIG, *_extra_kinds())


def _extra_kinds() -> frozenset[tuple[str, str]]:
    """Returns group and kind of each `Kind.group` in the setting; a kind of the core group is written without a dot."""
    names = SETTINGS.get(_SETTING, "").replace(",", " ").split()
    return frozenset((group, kind) for kind, _, group in (name.partition(".") for name in names))


def _kind(obj: Object) -> tuple[str, str]:
    return split_api_version(obj["apiVersion"])[0], obj["kind"]


def _is_of_class(obj: Object, follows_contract: FollowsContract) -> bool:
    group, kind = _kind(obj)
    if (group, kind) == (CLUSTER_CLASS.group, CLUSTER_CLASS.kind):
        return True
    if not kind.endswith(TEMPLATE) or group in BUILT_IN_GROUPS:
        return False
    return group in GROUPS or follows_contract(obj["apiVersion"], kind)


def _config_refusal(obj: Object, stack: str, texts: str) -> str:
    """Returns why a class chart must not contain a ConfigMap or Secret; empty if it may."""
    name = obj["metadata"]["name"]
    if not re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", texts):
        return "no template or ClusterClass of the chart refers to it"
    if not name.startswith(f"{stack}-"):
        return f"its name does not begin with {stack}-, so other objects may refer to it"
    if obj.get("type") not in (None, "", "Opaque"):
        return f"its type is {obj['type']!r}, not Opaque"
    if name.endswith(_OF_CLUSTERS):
        return "Cluster API gives this name to the Secret of a Cluster"
    selected = [label for label in _labels(obj) if not label.startswith(_HARMLESS_LABELS)]
    return f"controllers may select it by its label {selected[0]}" if selected else ""


def _labels(obj: Object) -> Iterable[str]:
    return sorted(map(str, dig(obj, "metadata.labels", {})))
