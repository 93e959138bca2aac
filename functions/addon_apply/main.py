from functions.addon_apply.function import handle
from shared.runtime.http import target

addon_apply = target("addon_apply", handle)
