"""An image cleaned of gross corruption, told neither its kind nor its level."""
