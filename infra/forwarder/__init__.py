"""The forwarder as a process of its own, and its manifests."""
