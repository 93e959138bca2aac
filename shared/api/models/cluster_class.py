"""The ClusterClass for runs without Cluster API; an installation of Cluster API brings its own CRD.

Releases of cluster stacks contain ClusterClasses and Clusters refer to them. No function reads them, so they are stored
unchanged.
"""

from __future__ import annotations

from shared.api import resources

from .custom_resource import AGE, CustomResource, Model, OpenModel


class ClusterClassSpec(OpenModel):
    """The content of a ClusterClass, stored unchanged."""


class ClusterClass(Model):
    """A template for Clusters."""

    spec: ClusterClassSpec | None = None


CLUSTER_CLASS = CustomResource(
    resource=resources.CLUSTER_CLASS,
    root=ClusterClass,
    short_name="cc",
    columns=(AGE,),
    also=("v1beta1",),
    of_core=True,
)
