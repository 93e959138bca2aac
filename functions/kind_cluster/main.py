from functions.kind_cluster.function import handle
from shared.runtime.http import target

kind_cluster = target("kind_cluster", handle)
