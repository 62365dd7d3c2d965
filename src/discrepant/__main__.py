"""`python -m discrepant` is the command line."""

from discrepant.app.cli import main

main()
