"""The hot loops, in Cython's pure-Python mode: ordinary Python files, compiled at installation where possible.

A kernel takes arrays and scalars and imports nothing of ours. The same file serves both forms:
`importlib` finds the compiled extension first and the `.py` otherwise.
"""
