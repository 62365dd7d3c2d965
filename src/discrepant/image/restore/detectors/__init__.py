"""Images from detectors: cosmic rays, weak outliers, and denoising."""
