"""`sweep` makes up for lost events: it lists the objects and emits an event for each that is not reconciled."""
