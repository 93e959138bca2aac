"""The function `sweep` lists objects, and emits an event for each unreconciled one, because events may be lost."""
