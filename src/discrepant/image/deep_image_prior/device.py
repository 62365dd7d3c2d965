"""Where the network runs, and whether it fits there."""

import torch

from discrepant.core.errors import InputError
from discrepant.core.memory import available_memory
from discrepant.image.deep_image_prior.architecture import Network

# Floats held at once for each pixel, for each hidden channel and beside them; an upper
# bound of what `python benchmarks/image.py --memory` measures from 256×256 on.
FLOATS_PER_PIXEL_AND_WIDTH = 14
FLOATS_PER_PIXEL = 400


def chosen_device(name: str = "auto") -> torch.device:
    """Return the device of that name; "auto" is CUDA, else MPS, else the CPU."""
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(kind for kind in available if available[kind]))
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise InputError(
            f'device must be "auto", "cuda", "mps" or "cpu", got {name!r}.'
        ) from None
    if not available.get(device.type, False):
        raise InputError(
            f"device={name!r} was asked for, but PyTorch finds none here; leave it "
            "out to use what there is."
        )
    return device


def check_memory(height: int, width: int, hidden: int, device: torch.device) -> None:
    """Refuse an image whose network would not fit, before anything is started."""
    needed = memory_needed(height, width, hidden)
    there = _memory_there(device)
    if there is not None and needed > there:
        raise InputError(
            f"A {height}×{width} image at width {hidden} needs some "
            f"{needed / 2**30:.0f} GiB of memory, and this device has "
            f"{there / 2**30:.0f} GiB; pass a smaller width, or the image in tiles."
        )


def memory_needed(height: int, width: int, hidden: int) -> int:
    """Return roughly how many bytes one step takes at most."""
    height, width = Network.padded(height, width)
    floats = FLOATS_PER_PIXEL_AND_WIDTH * hidden + FLOATS_PER_PIXEL
    return 4 * floats * height * width


def _memory_there(device: torch.device) -> int | None:
    """Return the bytes of memory of a device, or None where they are not known."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return available_memory()
