"""Images that were corrupted before they were saved as JPEG."""
