"""Detector faults: cosmic rays, weak hot pixels, noise."""
