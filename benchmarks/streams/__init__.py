"""The race: calibrators on streams that drift. `README.md` beside this file says what is run and on what."""
