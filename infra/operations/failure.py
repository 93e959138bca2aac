"""The failure that operations raise."""


class Failure(Exception):
    """A failure that the user can act on; only the message is printed."""
