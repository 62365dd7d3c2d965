"""Tables: flag and replace wrong cells."""
