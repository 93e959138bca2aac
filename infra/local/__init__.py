"""A local run: control plane, functions and forwarder as processes of one machine."""
