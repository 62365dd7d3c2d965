"""Hypothesis profiles, order of the tests, and the command line as a fixture."""

import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, settings

from support.messages import without_notice

# Laws (marked so): some 280 examples in all in every run, always the same; 7,000 new
# ones with --hypothesis-profile=long.
CALM = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("short", max_examples=8, derandomize=True, **CALM)
settings.register_profile("long", max_examples=200, **CALM)
settings.load_profile("short")

# Tests run side by side, one process a core: more threads of BLAS would only wait.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Tests whose kernels are those of pictures.
PICTURES = ("image", "restore", "video", "page", "doors", "frames", "faults_files")


def pytest_collection_modifyitems(items):
    """Put pictures first, so that of two workers each compiles what is its own.

    `--dist worksteal` hands the first half of the tests to one, the second half to the
    other, and then whatever is left to whoever is done.
    """
    items.sort(key=lambda item: not any(word in item.path.name for word in PICTURES))


@pytest.fixture(scope="session")
def discrepant():
    """Run the command line as a person would: in a process of its own."""

    def run(*args, cwd):
        done = subprocess.run(
            [sys.executable, "-m", "discrepant", *map(str, args)],
            capture_output=True,
            text=True,
            cwd=cwd,
            env={**os.environ, "COLUMNS": "100"},
        )
        done.stderr = without_notice(done.stderr)
        return done

    return run
