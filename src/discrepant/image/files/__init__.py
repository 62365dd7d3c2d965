"""Image files in and out, with all that they carry."""
