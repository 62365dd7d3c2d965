"""Run the command line: `python -m discrepant`."""

from discrepant.cli.main import main

main()
