from functions.release_prune.function import handle
from shared.runtime.http import target

release_prune = target("release_prune", handle)
