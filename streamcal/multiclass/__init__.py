"""Many classes: a vector of scores, one for each label → probabilities that sum to one."""
