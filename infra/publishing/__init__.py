"""Writes the files of a version of this project, so that the same commit gives the same bytes."""
