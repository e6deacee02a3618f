"""Statistics: what is kept of the past. They add up, take back, fade and can be written down."""
