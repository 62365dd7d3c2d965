"""Images that were saved as JPEG after they were corrupted."""
