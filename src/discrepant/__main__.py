"""`python -m discrepant` is the command line."""

from discrepant.cli.main import main

main()
