"""Messages of the command line."""

import re


def without_notice(stderr):
    """Leave out the notice that code is compiled, which depends on earlier runs."""
    return re.sub(r"discrepant: Compiling for this machine.*\n", "", stderr)
