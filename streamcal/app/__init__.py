"""The command line, the demonstration, plots and reports."""
