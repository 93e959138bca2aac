"""Brings changes of Kubernetes objects to the functions as CloudEvents: forwarder, ingress, capture, replay."""
