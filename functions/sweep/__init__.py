"""`sweep` makes up for lost events. It lists the objects and emits an event for each that is not reconciled."""
