"""The base of all methods: learning, retracting, merging, refreshing and saving."""
