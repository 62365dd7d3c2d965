"""The command line: arguments and printing."""
