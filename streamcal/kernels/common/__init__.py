"""What the other families share: checks, weights, log-odds, compensated sums, losses."""
