"""Tables: clean(), what their columns hold, and files of them."""
