"""Memories: a statistic under a forgetting policy, at work.

A memory owns its statistic and decides what enters, what leaves and how much an observation of today weighs in it.
Policies (`streamcal.parameters.forgetting`) are the parameters; memories are what they start.
"""
