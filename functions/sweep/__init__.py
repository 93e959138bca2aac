"""The backstop: lists what there is and sends an event again for whatever is not settled."""
