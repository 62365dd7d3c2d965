"""Hypothesis profiles, the order of the tests, and a fixture for the command line."""

import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, settings

from support.messages import without_notice

# Tests marked `law` draw about 280 examples in every run, always the same ones, and
# 7,000 new ones with --hypothesis-profile=long. Examples have no time limit.
PROFILE = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("short", max_examples=8, derandomize=True, **PROFILE)
settings.register_profile("long", max_examples=200, **PROFILE)
settings.load_profile("short")

# Tests run in one process per core: more BLAS threads would only wait for each other.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Parts of the paths of tests that compile the kernels for images and videos.
IMAGE_TESTS = (
    *("image", "restore", "video", "server", "hostile_files"),
    *("frame_laws", "application_laws", "either_result"),
)


def pytest_collection_modifyitems(items):
    """Run tests of images first, so that two workers compile different kernels.

    `--dist worksteal` gives the first half of the tests to one worker and the second
    half to the other; the worker that is done first takes tests from the other.
    """

    def compiles_no_image_kernels(item):
        path = item.nodeid.partition("::")[0]
        return not any(part in path for part in IMAGE_TESTS)

    items.sort(key=compiles_no_image_kernels)


@pytest.fixture(scope="session")
def discrepant():
    """Return a function that runs the command line in a process of its own."""

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
