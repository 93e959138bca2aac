"""ClusterClass, for runs without Cluster API; where that is installed, its own CRD is there instead.

Releases of cluster stacks bring them and Clusters name them. Nothing here reads them, so they are kept as they come.
"""

from __future__ import annotations

from shared.api import resources

from .custom_resource import AGE, CustomResource, Model, OpenModel


class ClusterClassSpec(OpenModel):
    pass


class ClusterClass(Model):
    """What clusters of one kind are made of."""

    spec: ClusterClassSpec | None = None


CLUSTER_CLASS = CustomResource(
    resource=resources.CLUSTER_CLASS, also=("v1beta1",), root=ClusterClass, short_name="cc", columns=(AGE,)
)
