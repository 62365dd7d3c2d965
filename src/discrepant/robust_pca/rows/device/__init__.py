"""Passes over arrays of other libraries, by the array API standard."""
