from functions.provider_install.function import handle
from shared.runtime.http import target

provider_install = target("provider_install", handle)
