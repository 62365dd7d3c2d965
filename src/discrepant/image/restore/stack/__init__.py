"""Stacks of frames of one scene, restored together."""
