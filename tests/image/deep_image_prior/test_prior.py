"""The network prior: gradients, reproducible fits, and invalid input."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.nn import functional

from discrepant.core.errors import InputError
from discrepant.image import (
    Corruption,
    Network,
    NetworkPrior,
    Settings,
    dip,
    dip_l1,
    recover_image,
)
from discrepant.image.arrays import psnr
from discrepant.image.deep_image_prior.architecture import multiplications
from discrepant.image.deep_image_prior.fused_batch_norm import batch_norm_leaky_relu
from discrepant.image.deep_image_prior.prior import (
    PAPER,
    check_memory,
    choose_device,
    memory_needed,
)
from support.networks import NOISY, SMALL, TRUTH, one_thread_and_seed  # noqa: F401 (a fixture)


def test_network_has_the_parameters_of_deep_image_prior():
    assert sum(p.numel() for p in Network().parameters()) == 2_217_831


def test_multiplications_are_counted_per_convolution():
    # 3×3 of 132 → 128 channels and 1×1 of 128 → 128 at full size take the most.
    work = multiplications(Network(), 256, 256)
    at_full_size = 3 * 256**2 * (9 * 132 * 128 + 128 * 128)
    assert at_full_size < work < 2 * at_full_size


@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 9, 3), (33, 65), (64, 64, 1), (40, 30, 2), (20, 20, 32)]
)
def test_any_size_and_number_of_channels_is_accepted(shape):
    image = np.random.default_rng(0).random(shape)
    result = recover_image(image, Settings(width=2, steps=2), every=1, device="cpu")
    assert result.image.shape == result.corruption.shape == shape
    assert np.isfinite(result.image).all()


@pytest.mark.parametrize("margin", [0, 1])
@pytest.mark.parametrize("slope", [0.2, 1])
def test_fused_norm_equals_the_separate_operations(margin, slope):
    norm = torch.nn.BatchNorm2d(5, track_running_stats=False).double()
    with torch.no_grad():
        norm.weight.normal_()
        norm.bias.normal_()
    z = torch.randn(1, 5, 6, 7, dtype=torch.float64, requires_grad=True)
    plain = functional.leaky_relu(norm(z), slope)
    if margin:
        plain = functional.pad(plain, (1, 1, 1, 1), mode="reflect")
    fused = batch_norm_leaky_relu(z, norm, slope, margin)
    torch.testing.assert_close(fused, plain)
    weights = torch.randn_like(plain)
    inputs = (z, norm.weight, norm.bias)
    for one, other in zip(
        torch.autograd.grad((fused * weights).sum(), inputs),
        torch.autograd.grad((plain * weights).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
    pair = batch_norm_leaky_relu(torch.cat([z, z]), norm, slope, margin)  # not fused
    torch.testing.assert_close(pair[:1], plain)


def test_fused_norm_does_not_depend_on_the_number_of_threads():
    norm = torch.nn.BatchNorm2d(7, track_running_stats=False)
    z = torch.randn(1, 7, 200, 200)
    one = batch_norm_leaky_relu(z, norm, 0.2, 1)
    torch.set_num_threads(3)
    assert torch.equal(one, batch_norm_leaky_relu(z, norm, 0.2, 1))


def test_gradient_of_the_network():
    """One SGD step decreases the mean square by the rate times ‖∇‖²."""
    settings = Settings(width=3, rate=1e-3)
    signal = NetworkPrior((30, 40, 3), settings, seed=1)
    signal.network.double()
    signal.noise = signal.noise.double()
    y = torch.rand(1, 3, 30, 40, dtype=torch.float64)

    def loss():
        signal.generator.manual_seed(5)
        return (signal.value() - y).square().mean().item()

    before = loss()
    residual = signal.value() - y
    signal.generator.manual_seed(5)
    residual = signal.value() - y
    start = [p.detach().clone() for p in signal.network.parameters()]
    ratios = []
    for rate in (1e-4, 1e-5):
        with torch.no_grad():
            for p, value in zip(signal.network.parameters(), start, strict=True):
                p.copy_(value)
        loss()
        signal.descend(residual, rate)
        squares = sum(p.grad.square().sum() for p in signal.network.parameters())
        ratios.append((before - loss()) / (rate * squares.item()))
    # f(θ − τ∇f) = f(θ) − τ‖∇f‖² + O(τ²): the ratio tends to one in proportion to τ.
    assert abs(ratios[1] - 1) < 0.02
    assert abs(ratios[1] - 1) < 0.5 * abs(ratios[0] - 1)


def test_gradient_of_the_corruption():
    corruption = Corruption((3, 4), start=0.3).double()
    with torch.no_grad():
        corruption.h.mul_(torch.rand(3, 4))

    def value(g, h):
        return torch.func.functional_call(corruption, {"g": g, "h": h})

    assert torch.autograd.gradcheck(value, (corruption.g, corruption.h))


def test_closed_form_descent_equals_back_propagation():
    y = torch.randn(5, 6)
    by_hand, by_module = Corruption((5, 6), start=0.1), Corruption((5, 6), start=0.1)
    by_module.rate = 0.2
    for _ in range(10):
        by_hand.descend(by_hand.value() - y, 0.2)
        (by_module() - y).square().sum().div(4).backward()  # the paper's ¼‖r‖²
        by_module.step()
    torch.testing.assert_close(by_hand.value(), by_module.value())


def test_a_batch_changes_only_its_own_corruption():
    corruption = Corruption((4, 2), rate=1.0, start=0.5)
    (corruption(torch.tensor([1, 3])) - 1).square().sum().backward()
    corruption.step()
    changed = corruption.value().abs().sum(dim=1) > 0
    assert changed.tolist() == [False, True, False, True]


def test_corruption_rate_does_not_depend_on_the_size():
    """Tiled images of the same values give the same g, whatever their number."""
    small, large = (Corruption((n,)) for n in (10, 1000))
    for corruption in (small, large):
        for _ in range(5):
            corruption.descend(corruption.value() - 0.7, PAPER.corruption_rate)
    assert torch.equal(small.g, large.g[:10])
    # The paper: SGD at 500 on the mean square over 512×512×3 values.
    g = torch.full((1,), 1e-5, requires_grad=True)
    ((g * g - 1e-10 - 0.7) ** 2 / (512 * 512 * 3)).sum().backward()
    first = Corruption((1,))
    first.descend(first.value() - 0.7, PAPER.corruption_rate)
    torch.testing.assert_close(first.g.detach(), g.detach() - 500 * g.grad)


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("fit", [recover_image, dip, dip_l1])
def test_the_loss_falls_and_the_seed_determines_the_result(optimiser, fit):
    settings = Settings(width=8, optimiser=optimiser, steps=20, rate=0.01)
    if optimiser == "sgd":
        settings = Settings(width=8, steps=20)
    one, two = (
        fit(NOISY, settings, truth=TRUTH, every=5, random_state=3) for _ in range(2)
    )
    assert np.array_equal(one.image, two.image)
    assert one.history["loss"][-1] < one.history["loss"][0]
    assert one.best.shape == TRUTH.shape
    assert psnr(one.best, TRUTH) == pytest.approx(one.history["psnr"].max(), abs=1e-3)
    other = fit(NOISY, settings, truth=TRUTH, every=5, random_state=4)
    assert not np.array_equal(one.image, other.image)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros(5), "shape"),
        (np.zeros((0, 4)), "empty"),
        (np.zeros((4, 4, 33)), "channels"),
        (np.full((4, 4), np.nan), "NaN"),
        (np.full((4, 4), np.inf), "infinite"),
        (np.full((4, 4), 3.0), r"\[0, 1\]"),
        (np.array([["a", "b"]]), "floats"),
        (np.zeros((4, 4), complex), "floats"),
        ([[1.0], [1.0, 2.0]], "rows of different lengths"),
    ],
)
def test_invalid_images_are_refused(image, message):
    with pytest.raises(InputError, match=message):
        recover_image(image, SMALL)


@pytest.mark.parametrize("level", [0.0, 3e-4])
def test_dark_images_do_not_count_as_divergence(level):
    result = recover_image(np.full((20, 20), level), SMALL, every=4)
    assert 0 < result.history["loss"][-1] < result.history["loss"][0]


def test_transparency_is_unchanged():
    image = np.random.default_rng(0).integers(0, 256, (16, 20, 4), np.uint8)
    result = recover_image(image, SMALL, truth=image)
    assert (
        result.image.shape
        == result.best.shape
        == result.corruption.shape
        == (16, 20, 4)
    )
    assert np.array_equal(result.image[..., 3], image[..., 3] / 255)
    assert not result.corruption[..., 3].any()


@pytest.mark.parametrize(
    ("option", "value"),
    [("every", 0), ("every", 2.5), ("random_state", None), ("device", None)],
)
def test_invalid_options_are_refused(option, value):
    with pytest.raises(InputError, match=f"{option} must be"):
        recover_image(NOISY, SMALL, **{option: value})


def test_progress_is_called_for_every_history_entry():
    reports = []
    result = recover_image(
        NOISY, SMALL, every=4, progress=lambda *report: reports.append(report)
    )
    assert [fraction for fraction, _ in reports] == [0, 4 / 12, 8 / 12, 1]
    assert all("loss" in note for _, note in reports)
    assert len(result.history["step"]) == len(reports)


def test_progress_may_stop_a_fit():
    result = recover_image(
        NOISY, SMALL, every=4, progress=lambda fraction, note: fraction < 0.3
    )
    assert result.history["step"].tolist() == [0, 4]
    assert "on request" in str(result.status)
    assert result.image.shape == NOISY.shape


def test_the_loss_is_not_an_option():
    with pytest.raises(TypeError, match="unexpected keyword"):
        dip(NOISY, SMALL, loss="absolute")


def test_invalid_settings_are_refused():
    for name, value in (
        ("optimiser", "magic"),
        ("rate", 0),
        ("corruption_rate", -1),
        ("rate", "x"),
        ("steps", 0),
        ("steps", 2.5),
        ("width", 0),
        ("settling", -1),
        ("perturbation", float("nan")),
    ):
        with pytest.raises(InputError, match=f"{name} must be"):
            Settings(**{name: value})
    with pytest.raises(InputError, match="shape"):
        recover_image(NOISY, SMALL, truth=TRUTH[1:])
    with pytest.raises(InputError, match="diverged"):
        recover_image(NOISY, Settings(width=4, corruption_rate=1e6, steps=30), every=1)


def test_unavailable_devices_are_refused(monkeypatch):
    assert choose_device("cpu").type == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="not available"):
        choose_device("cuda")
    with pytest.raises(InputError, match="device must be"):
        choose_device("abacus")


def test_an_image_too_large_for_memory_is_refused():
    with pytest.raises(InputError, match="GiB of memory"):
        recover_image(np.broadcast_to(np.float32(0.5), (9_000, 9_000)))
    check_memory(512, 512, 128, torch.device("cpu"))
    assert memory_needed(512, 512, 128) < 4 * 2**30


def test_without_torch_the_error_names_the_extra():
    code = """
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, NoTorch())
import discrepant.image
from discrepant.core.errors import InputError
try:
    discrepant.image.recover_image
except InputError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "[image]'" in done.stdout
