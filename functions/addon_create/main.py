from functions.addon_create.function import handle
from shared.runtime.http import target

addon_create = target("addon_create", handle)
