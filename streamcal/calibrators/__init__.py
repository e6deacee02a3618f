"""The methods of one score and a binary label, one per file."""
