"""The configuration of kind for a KINDCluster: pure functions of the spec."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

IMAGES: Mapping[str, str] = {
    # Of the release of kind that infra/binaries/kind pins.
    "1.37": "kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5",
    "1.36": "kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed",
    "1.35": "kindest/node:v1.35.8@sha256:07b2536e30b803ed61d1677a79df6115f798ce64c80f9e22f6ed45afd09323c0",
    "1.34": "kindest/node:v1.34.11@sha256:44e222ee2132dab25ff87301682f89eb82c7880ea3a1bf543bfe9708fd08d67d",
    # From the last release with an image of the minor version; kind gives no guarantee for these images.
    "1.33": "kindest/node:v1.33.12@sha256:3f5c8443c620245e4d355cfe09e96a91ead32ceaa569d3f1ca9edf0cb2fe2ff4",  # v0.32.0
    "1.32": "kindest/node:v1.32.11@sha256:5fc52d52a7b9574015299724bd68f183702956aa4a2116ae75a63cb574b35af8",  # v0.31.0
    "1.31": "kindest/node:v1.31.14@sha256:6f86cf509dbb42767b6e79debc3f2c32e4ee01386f0489b3b2be24b0a55aac2b",  # v0.31.0
    "1.30": "kindest/node:v1.30.13@sha256:397209b3d947d154f6641f2d0ce8d473732bd91c87d9575ade99049aa33cd648",  # v0.29.0
    "1.29": "kindest/node:v1.29.14@sha256:8703bd94ee24e51b778d5556ae310c6c0fa67d761fae6379c8e0bb480e6fea29",  # v0.27.0
    "1.28": "kindest/node:v1.28.15@sha256:a7c05c7ae043a0b8c818f5a06188bc2c4098f6cb59ca7d1856df00375d839251",  # v0.25.0
    "1.27": "kindest/node:v1.27.16@sha256:2d21a61643eafc439905e18705b8186f3296384750a835ad7a005dceb9546d20",  # v0.25.0
    "1.26": "kindest/node:v1.26.15@sha256:c79602a44b4056d7e48dc20f7504350f1e87530fe953428b792def00bc1076dd",  # v0.25.0
    "1.25": "kindest/node:v1.25.16@sha256:6110314339b3b44d10da7d27881849a87e092124afab5956f2e10ecdb463b025",  # v0.24.0
    # Of v0.14.0.
    "1.24": "kindest/node:v1.24.0@sha256:0866296e693efe1fed79d5e6c7af8df71fc73ae45e3679af05342239cdc5bc8e",
    "1.23": "kindest/node:v1.23.6@sha256:b1fa224cc6c7ff32455e0b1fd9cbfd3d3bc87ecaa8fcb06961ed1afb3db0f9ae",
    "1.22": "kindest/node:v1.22.9@sha256:8135260b959dfe320206eb36b3aeda9cffcb262f4b44cda6b33f7bb73f453105",
    "1.21": "kindest/node:v1.21.12@sha256:f316b33dd88f8196379f38feb80545ef3ed44d9197dca1bfd48bcb1583210207",
    "1.20": "kindest/node:v1.20.15@sha256:6f2d011dffe182bad80b85f6c00e8ca9d86b5b8922cdf433d53575c4c5212248",
    "1.19": "kindest/node:v1.19.16@sha256:d9c819e8668de8d5030708e484a9fdff44d95ec4675d136ef0a0a584e587f65c",
    "1.18": "kindest/node:v1.18.20@sha256:738cdc23ed4be6cc0b7ea277a2ebcc454c8373d7d8fb991a7fcdbd126188e6d7",
    # Of v0.12.0, which its release pull request lists.
    "1.17": "kindest/node:v1.17.17@sha256:e477ee64df5731aa4ef4deabbafc34e8d9a686b49178f726563598344a3898d5",
    "1.16": "kindest/node:v1.16.15@sha256:64bac16b83b6adfd04ea3fbcf6c9b5b893277120f2b2cbf9f5fa3e5d4c2260cc",
    "1.15": "kindest/node:v1.15.12@sha256:9dfc13db6d3fd5e5b275f8c4657ee6a62ef9cb405546664f2de2eabcfd6db778",
    "1.14": "kindest/node:v1.14.10@sha256:b693339da2a927949025869425e20daf80111ccabf020d4021a23c00bae29d82",
}
"""The node images by minor version of Kubernetes, by digest."""

CONTROL_PLANE, LOAD_BALANCER = "control-plane", "external-load-balancer"
"""Roles of containers; several control planes are behind a load balancer."""

OWNER_MOUNT = "/capi-functions/owner/"
"""Each node has a mount at this path and the uid of its KINDCluster: the proof of ownership, from its creation on."""

_COPIED = (
    *("networking", "featureGates", "runtimeConfig"),
    *("kubeadmConfigPatches", "kubeadmConfigPatchesJSON6902"),
    *("containerdConfigPatches", "containerdConfigPatchesJSON6902"),
)
_LONGEST_HOST_NAME = 63
_DEFAULT_VERSION = "1.21"


def problem(fields: Mapping[str, Any]) -> str:
    """Returns the fault of a spec that kind itself does not report clearly; "" without a fault."""
    name = fields.get("clusterName", "")
    longest = max(node_names(name, fields), key=len)
    if len(longest) > _LONGEST_HOST_NAME:
        allowed = len(name) - (len(longest) - _LONGEST_HOST_NAME)
        return (
            f"spec.clusterName has {len(name)} characters, the runtime kind allows {allowed} with these nodes: "
            f"{longest} is the name of a host, which has at most {_LONGEST_HOST_NAME}"
        )
    address = (fields.get("networking") or {}).get("apiServerAddress")
    if address in ("0.0.0.0", "::"):  # noqa: S104
        return (
            f"spec.networking.apiServerAddress is {address}, to which no client can connect: use an address of this "
            "machine that clients reach"
        )
    for mount in (mount for node in fields.get("nodes") or () for mount in node.get("extraMounts") or ()):
        path = posixpath.normpath("/" + mount.get("containerPath", "").lstrip("/"))
        if f"{path}/".startswith(OWNER_MOUNT):
            return f"extraMounts has the containerPath {path}: {OWNER_MOUNT} is reserved for the proof of ownership"
    if not image(fields):
        return (
            f"no node image is known for spec.kubernetesVersion {fields.get('kubernetesVersion')}: set spec.image to "
            f"a node image of kind, or use one of {', '.join(IMAGES)}"
        )
    return ""


def node_names(cluster: str, fields: Mapping[str, Any]) -> list[str]:
    """Returns the names of the containers of a cluster, as kind derives them from its nodes."""
    roles = [node.get("role", CONTROL_PLANE) for node in _nodes(fields)]
    names = []
    for role in dict.fromkeys(roles):
        names += [f"{cluster}-{role}{number if number > 1 else ''}" for number in range(1, roles.count(role) + 1)]
    if roles.count(CONTROL_PLANE) > 1:
        names.append(f"{cluster}-{LOAD_BALANCER}")
    return names


def image(fields: Mapping[str, Any]) -> str:
    """Returns the node image of a spec; "" if none is known for its version of Kubernetes."""
    return str(fields.get("image") or IMAGES.get(fields.get("kubernetesVersion") or _DEFAULT_VERSION, ""))


def kind_config(fields: Mapping[str, Any], uid: str, owner: str, ca: tuple[str, str] | None = None) -> dict[str, Any]:
    """Returns the document for `kind create cluster --config`.

    Args:
        fields: The spec of the KINDCluster.
        uid: Its uid.
        owner: The path of an empty folder, which is mounted into all nodes as the proof of ownership.
        ca: The paths of the user's own CA, certificate and key: kubeadm uses a CA that exists.
    """
    proof = {"hostPath": owner, "containerPath": OWNER_MOUNT + uid, "readOnly": True}
    nodes = [dict(node) for node in _nodes(fields)]
    first = next((node for node in nodes if node.get("role", CONTROL_PLANE) == CONTROL_PLANE), None)
    for node in nodes:
        mounts = [*(node.get("extraMounts") or []), proof]
        if ca and node is first:
            pki = "/etc/kubernetes/pki/ca"
            mounts += [{"hostPath": ca[0], "containerPath": f"{pki}.crt"}]
            mounts += [{"hostPath": ca[1], "containerPath": f"{pki}.key"}]
        node["extraMounts"] = mounts
        node.setdefault("image", image(fields))
    copied = {name: fields[name] for name in _COPIED if fields.get(name)}
    return {"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "nodes": nodes, **copied}


def _nodes(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(fields.get("nodes") or [{"role": CONTROL_PLANE}])
