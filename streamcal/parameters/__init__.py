"""Parameters of calibrators: scales, forgetting policies, priors; and the validation of input."""
