from functions.sweep.function import handle
from shared.runtime.http import target

sweep = target("sweep", handle)
