"""Settings and images for fits of a small network, with one thread and a fixed seed."""

import pytest
import torch
from skimage import data

from discrepant.image import Settings
from discrepant.image.corruptions import salt_and_pepper

SMALL = Settings(width=4, optimiser="adam", rate=0.01, corruption_rate=0.1, steps=12)
TRUTH = data.astronaut()[60:90, 200:240] / 255
NOISY = salt_and_pepper(TRUTH, 0.3, random_state=0)[0]


@pytest.fixture(autouse=True)
def one_thread_and_seed():
    """Run each test with one thread and the same seed."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
    torch.set_num_threads(threads)
