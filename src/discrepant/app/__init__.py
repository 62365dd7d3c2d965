"""What the commands do, as functions that return reports; `cli` prints them."""
