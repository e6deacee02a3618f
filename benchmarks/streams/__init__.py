"""The race: calibrators on streams that drift. `README.md` in this folder describes streams, entrants and measures."""
