from functions.release_assets.function import handle
from shared.runtime.http import target

release_assets = target("release_assets", handle)
