"""What calibrators are given: scales, forgetting policies, priors; and the checks of input."""
