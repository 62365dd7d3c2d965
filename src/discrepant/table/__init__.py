"""Tables: files of numbers with labels."""
