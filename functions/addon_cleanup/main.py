from functions.addon_cleanup.function import handle
from shared.runtime.http import target

addon_cleanup = target("addon_cleanup", handle)
