"""Tables: find and replace wrong cells."""
