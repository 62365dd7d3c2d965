"""Passes over the rows of m×n data: the only code that reads data of that size."""
