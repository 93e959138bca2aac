from functions.provider_preflight.function import handle
from shared.runtime.http import target

provider_preflight = target("provider_preflight", handle)
