"""How fast one step of the network is, against the physical work in it.

    python benchmarks/image.py [--large] [--plain] [--threads 2]

A step is one forward and one backward pass. Its multiply–adds, divided by its time, are
compared with what a matrix product of 2048×2048 reaches in the same run; then the time
is shared out among the operations. ``--large`` adds 512×512 at width 128, ``--plain``
leaves out the huge pages that `discrepant.image` asks for.
"""

import argparse
import os
import time

GROUPS = {
    "convolution": ("conv",),
    "batch norm": ("batch_norm",),
    "LeakyReLU": ("leaky_relu",),
    "padding": ("reflection_pad",),
    "upsampling": ("upsample",),
}


def shortest(function, repeats):
    function()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if options.plain:
        os.environ["THP_MEM_ALLOC_ENABLE"] = "0"

    from discrepant.image.networks import INPUT_CHANNELS, Network, multiplications

    import torch  # isort: skip  (after the line above has asked for huge pages)
    from torch.profiler import ProfilerActivity, profile

    torch.set_num_threads(options.threads)
    square = torch.rand(2048, 2048)

    def product_rate():
        return 2048**3 / shortest(lambda: square @ square, 5)

    cases = [(128, 32), (256, 32), (128, 128), (256, 128)]
    if options.large:
        cases.append((512, 128))
    print(f"{options.threads} threads, torch {torch.__version__}")
    print("  size width  step, ms  matrix product  network  share of it")
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
        product = max(before, product_rate())
        rate = multiplications(network, size, size) / seconds
        print(
            f"{size:6d} {width:5d} {1e3 * seconds:9.1f} {2e-9 * product:8.1f} GFLOP/s "
            f"{2e-9 * rate:8.1f} {rate / product:11.0%}"
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
    main()
