"""Many classes: a probability vector → a calibrated probability vector."""
