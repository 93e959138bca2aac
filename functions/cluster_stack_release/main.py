from functions.cluster_stack_release.function import handle
from shared.runtime.http import target

cluster_stack_release = target("cluster_stack_release", handle)
