"""Factorised parameterisations of signal and corruption, with their gradients."""
