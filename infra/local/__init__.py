"""A local run: control plane, object store, functions and forwarder as processes of one machine."""
