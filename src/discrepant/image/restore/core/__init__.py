"""Photographs: prediction from the surroundings and a mixture model of corruption."""
