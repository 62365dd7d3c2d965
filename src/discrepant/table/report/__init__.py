"""The HTML report and the figures of a cleaned table."""
