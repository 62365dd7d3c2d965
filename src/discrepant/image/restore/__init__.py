"""Restore images with gross corruption of unknown kind and amount."""
