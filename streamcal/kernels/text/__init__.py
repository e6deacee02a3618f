"""Columns of text files."""
