from functions.catalog import target

kubeconfig = target("kubeconfig")
