"""The cellwise-robust model: fit, scores, calibration."""
