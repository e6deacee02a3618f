"""Read files and tables as streams, calibrate them row by row, and compare methods on them."""
