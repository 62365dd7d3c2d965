"""Speed of one step of the network, relative to that of a matrix product.

    python benchmarks/images/network_step.py [--large] [--plain] [--threads 2]
        [--memory]

A step is one forward and one backward pass. Its multiply–adds per second are compared
with those of a matrix product of 2048×2048 in the same run; then the time is divided
among the operations. The last column uses processor time: on a machine that does other
work too, read that one, with ``--threads 1``. ``--large`` adds 512×512 at width 128,
``--plain`` omits the huge pages that `discrepant.image` requests. ``--memory`` prints
instead the peak memory of a step, in its own process, beside `prior.memory_needed`.
"""

import argparse
import os
import subprocess
import sys
import time

import numpy as np
from recording import recorded

# Names of groups of operations, with parts of the names of their profiler events.
GROUPS = {
    "convolution": ("conv",),
    "norm, LeakyReLU and margin": ("FusedBatchNorm",),
    "other padding": ("reflection_pad",),
    "upsampling": ("upsample",),
}


def shortest(function, repeats):
    """Return the shortest wall-clock time and processor time of a function."""
    function()
    times = []
    for _ in range(repeats):
        started = time.perf_counter(), time.process_time()
        function()
        ended = time.perf_counter(), time.process_time()
        times.append(np.subtract(ended, started))
    return np.min(times, axis=0)


# A script that prints the peak memory of one step, in kilobytes.
STEP = """
import resource, sys, torch
from discrepant.image.deep_image_prior.architecture import INPUT_CHANNELS, Network
torch.set_num_threads(1)
size, width = map(int, sys.argv[1:])
output = Network(3, width)(torch.rand(1, INPUT_CHANNELS, size, size))
output.backward(output.detach() / output.numel())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_memory(size, width):
    """Return the peak memory, in bytes, of a process that takes one step."""
    command = [sys.executable, "-c", STEP, str(size), str(width)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return 1024 * int(done.stdout)


def print_memory(cases):
    """Print the memory of a step beyond that of the libraries."""
    from discrepant.image.deep_image_prior.prior import memory_needed

    libraries = peak_memory(64, 1)
    print("  size width         peak     estimate  floats per pixel")
    for size, width in cases:
        taken = peak_memory(size, width) - libraries
        print(
            f"{size:6d} {width:5d} {taken / 2**20:8.0f} MiB "
            f"{memory_needed(size, size, width) / 2**20:8.0f} MiB "
            f"{taken / 4 / size**2:15.0f}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    if options.plain:
        os.environ["THP_MEM_ALLOC_ENABLE"] = "0"
    cases = [(128, 32), (256, 32), (128, 128), (256, 128)]
    if options.large:
        cases.append((512, 128))
    if options.memory:
        print_memory(cases)
        return

    from discrepant.image.deep_image_prior.architecture import (
        INPUT_CHANNELS,
        Network,
        multiplications,
    )

    import torch  # isort: skip  (after the line above has requested huge pages)
    from torch.profiler import ProfilerActivity, profile

    torch.set_num_threads(options.threads)
    square = torch.rand(2048, 2048)

    def product_rate():
        return 2048**3 / shortest(lambda: square @ square, 5)

    print(f"{options.threads} threads, torch {torch.__version__}")
    print(
        "  size width  step, ms  matrix product  network     fraction  processor time"
    )
    for size, width in cases:
        torch.manual_seed(0)
        network = Network(3, width)
        z = torch.rand(1, INPUT_CHANNELS, size, size)

        def step(network=network, z=z):
            network.zero_grad()
            output = network(z)
            output.backward(output.detach() / output.numel())

        before = product_rate()
        seconds = shortest(step, options.repeats)
        product = np.maximum(before, product_rate())
        rate = multiplications(network, size, size) / seconds
        print(
            f"{size:6d} {width:5d} {1e3 * seconds[0]:9.1f} "
            f"{2e-9 * product[0]:7.1f} GFLOP/s {2e-9 * rate[0]:8.1f} "
            f"{rate[0] / product[0]:12.0%} {rate[1] / product[1]:18.0%}"
        )
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            step()
        spent = dict.fromkeys([*GROUPS, "the rest"], 0.0)
        for event in profiled.key_averages():
            name = next(
                (g for g, keys in GROUPS.items() if any(k in event.key for k in keys)),
                "the rest",
            )
            spent[name] += event.self_cpu_time_total
        total = sum(spent.values())
        print("       " + ", ".join(f"{k} {v / total:.0%}" for k, v in spent.items()))


if __name__ == "__main__":
    recorded(main)
