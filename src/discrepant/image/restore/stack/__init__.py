"""Image stacks: several frames of one scene."""
