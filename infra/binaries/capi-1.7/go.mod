module capi-functions/infra/binaries/capi-1.7

go 1.26.0

// Nothing is built: tests install the CustomResourceDefinitions of the module.
require sigs.k8s.io/cluster-api v1.7.9
