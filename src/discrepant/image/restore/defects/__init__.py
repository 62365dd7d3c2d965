"""Surface defects of scans: dust, scratches, writing."""
