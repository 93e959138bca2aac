from functions.provider_wake.function import handle
from shared.runtime.http import target

provider_wake = target("provider_wake", handle)
