"""Messages of the command line."""

import re


def without_notice(stderr):
    """Return stderr without the compilation notice, which depends on earlier runs."""
    return re.sub(r"discrepant: Compiling for this machine.*\n", "", stderr)
