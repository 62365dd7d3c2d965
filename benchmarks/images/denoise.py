"""PSNR of ``restore(denoise=True)`` against denoisers that are given the noise level.

    python benchmarks/images/denoise.py

The peers are those of scikit-image. No constant was chosen on these inputs.
"""

import argparse

import numpy as np
from recording import recorded

from discrepant import restore
from discrepant.image.arrays import psnr


def measure(truth, grey_levels):
    """Return the PSNR of the noisy image, of `restore` and of its peers."""
    from skimage.restoration import denoise_nl_means, denoise_wavelet

    sigma = grey_levels / 255
    rng = np.random.default_rng(200 + grey_levels)
    noisy = truth + sigma * rng.normal(size=truth.shape)
    restored = restore(noisy, quality="fast", denoise=True).image
    nl_means = denoise_nl_means(
        noisy, patch_size=7, patch_distance=10, h=0.6 * sigma, sigma=sigma
    )
    wavelets = denoise_wavelet(noisy, sigma=sigma, rescale_sigma=True)
    return [psnr(image, truth) for image in (noisy, restored, nl_means, wavelets)]


def main():
    from skimage import data

    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    for name in ("astronaut", "chelsea", "rocket", "brick"):
        image = getattr(data, name)()
        grey = image if image.ndim == 2 else image[..., 1]
        truth = grey[60:260, 60:260] / 255
        for grey_levels in (5, 15, 30):
            noisy, restored, nl_means, wavelets = measure(truth, grey_levels)
            print(
                f"{name:10} σ = {grey_levels:2}: noisy {noisy:.2f}, "
                f"restore(denoise=True) {restored:.2f}, "
                f"non-local means given σ {nl_means:.2f}, "
                f"wavelets given σ {wavelets:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    recorded(main)
