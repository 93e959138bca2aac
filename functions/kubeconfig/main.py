from functions.kubeconfig.function import handle
from shared.runtime.http import target

kubeconfig = target("kubeconfig", handle)
