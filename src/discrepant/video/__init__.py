"""A video of a fixed camera split into its background and what moves before it."""
