from functions.provider_fetch.function import handle
from shared.runtime.http import target

provider_fetch = target("provider_fetch", handle)
