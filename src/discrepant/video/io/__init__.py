"""Read and write videos, from files, folders, arrays and cameras."""
