from functions.provider_delete.function import handle
from shared.runtime.http import target

provider_delete = target("provider_delete", handle)
