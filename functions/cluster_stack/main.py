from functions.cluster_stack.function import handle
from shared.runtime.http import target

cluster_stack = target("cluster_stack", handle)
