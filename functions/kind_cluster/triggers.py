"""What starts `kind_cluster`: the KINDCluster alone."""

from __future__ import annotations

from shared.api.resources import KIND_CLUSTER
from shared.triggers import SPEC, Triggers, Watch

TRIGGERS = Triggers(
    name="kind_cluster",
    watches=(
        Watch(
            KIND_CLUSTER,
            fields=(*SPEC, "metadata.ownerReferences", "metadata.annotations"),
            changes=("add", "update"),
        ),
    ),
    local=True,  # the runtime `local` starts control planes as processes beside the function
)
