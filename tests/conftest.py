"""What tests of several rooms share."""

import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def discrepant():
    """Run the command line as a person would: in a process of its own."""

    def run(*args, cwd):
        return subprocess.run(
            [sys.executable, "-m", "discrepant", *map(str, args)],
            capture_output=True,
            text=True,
            cwd=cwd,
            env={**os.environ, "COLUMNS": "100"},
        )

    return run
