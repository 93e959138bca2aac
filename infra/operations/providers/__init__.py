"""The providers of a management cluster: install, plan, upgrade, delete, export."""
