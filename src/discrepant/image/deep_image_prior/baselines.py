"""What the paper compares with: Deep Image Prior, under squares and absolute values.

It fits φ(θ) to the corrupted image alone and has to be stopped in time: the paper
grants it the step of the best PSNR, which only the truth can tell, and so ``best`` of
its result is that image. Both are called as `discrepant.image.recover_image` is.
"""

from discrepant.image.deep_image_prior.fit import Fit

dip = Fit(
    "squares",
    about="Fit φ(θ) alone under the mean-squared error (Deep Image Prior).",
)
dip_l1 = Fit(
    "absolute",
    gradient=lambda residual: residual.sign() / 2,
    about="Fit φ(θ) alone under the mean absolute error (DIP-ℓ1).",
)
