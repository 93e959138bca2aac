from functions.provider_report.function import handle
from shared.runtime.http import target

provider_report = target("provider_report", handle)
