"""Memories: implementations of the forgetting policies of `streamcal.parameters.forgetting`.

A memory owns the statistic of a calibrator. It adds observations, removes or down-weights old ones, and determines the
stored weight of a new observation.
"""
