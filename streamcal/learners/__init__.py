"""What the methods of all rooms share: learning, retracting, merging, refreshing and saving."""
