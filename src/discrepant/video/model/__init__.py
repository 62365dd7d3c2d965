"""The background model: prediction, classification and update of each frame."""
