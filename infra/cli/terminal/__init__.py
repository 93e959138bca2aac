"""Output, questions and failures of commands at a terminal."""
