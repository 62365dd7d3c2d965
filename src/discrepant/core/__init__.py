"""Shared by all parts: errors, validation, progress, linear algebra, results."""
