"""Everything on one machine: control plane, object store, functions and forwarder as local processes."""
