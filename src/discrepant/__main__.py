"""`python -m discrepant` is the command line."""

from discrepant.cli import main

main()
