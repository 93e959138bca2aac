from functions.cluster.function import handle
from shared.runtime.http import target

cluster = target("cluster", handle)
