"""Separate the video of a fixed camera into background and moving objects."""
