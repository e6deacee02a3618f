"""The edges: the command line, the demonstration, pictures and reports."""
