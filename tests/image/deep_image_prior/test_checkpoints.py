"""An interrupted fit of the network continues from its checkpoint."""

import subprocess
import sys
import time

import numpy as np
import pytest

from discrepant.core.errors import InputError
from discrepant.image import Settings, dip_l1, recover_image
from discrepant.image.deep_image_prior import checkpoints
from discrepant.image.deep_image_prior import fit as fit_module
from support.networks import NOISY, SMALL, TRUTH, one_thread_and_seed  # noqa: F401 (a fixture)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("fit", [recover_image, dip_l1])
def test_a_killed_run_resumes_to_the_same_result(tmp_path, monkeypatch, optimiser, fit):
    settings = Settings(
        width=4, optimiser=optimiser, rate=0.01, corruption_rate=0.1, steps=13
    )
    options = {"truth": TRUTH, "every": 2}
    uninterrupted = fit(NOISY, settings, **options)

    saved, save = [], checkpoints.save

    def kill_after_third(path, fingerprint, arrays):
        saved.append(save(path, fingerprint, arrays))
        if len(saved) == 3:
            raise Killed

    monkeypatch.setattr(checkpoints, "save", kill_after_third)
    monkeypatch.setattr(fit_module, "SECONDS_BETWEEN_CHECKPOINTS", 0)
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Killed):
        fit(NOISY, settings, checkpoint=path, **options)
    resumed = fit(NOISY, settings, checkpoint=path, **options)
    assert np.array_equal(uninterrupted.image, resumed.image)
    assert np.array_equal(uninterrupted.corruption, resumed.corruption)
    assert np.array_equal(uninterrupted.best, resumed.best)
    assert set(uninterrupted.history) == set(resumed.history)
    for name in set(uninterrupted.history) - {"seconds"}:
        assert np.array_equal(uninterrupted.history[name], resumed.history[name]), name


def test_a_checkpoint_has_no_pickles_and_serves_only_its_own_run(tmp_path, monkeypatch):
    monkeypatch.setattr(fit_module, "SECONDS_BETWEEN_CHECKPOINTS", 0)
    path = tmp_path / "run.checkpoint"
    recover_image(NOISY, SMALL, every=4, checkpoint=path)
    with np.load(path, allow_pickle=False) as file:
        assert all(file[name].dtype.kind in "fiuU" for name in file.files)
    for image, settings, seed in (
        (NOISY[::-1], SMALL, 0),
        (NOISY, Settings(width=5, steps=12), 0),
        (NOISY, SMALL, 1),
    ):
        with pytest.raises(InputError, match="another image or of other settings"):
            recover_image(image, settings, every=4, checkpoint=path, random_state=seed)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="remove it"):
        recover_image(NOISY, SMALL, every=4, checkpoint=path)


def test_a_full_disk_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(fit_module, "SECONDS_BETWEEN_CHECKPOINTS", 0)
    uninterrupted = recover_image(NOISY, SMALL, every=4)
    path, savez, calls = tmp_path / "run.checkpoint", np.savez, []

    def save_to_full_disk(file, **arrays):
        calls.append(path.exists())
        if len(calls) == 1:
            savez(file, **arrays)
            return
        file.write(b"half a checkpoint")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", save_to_full_disk)
    with pytest.warns(RuntimeWarning, match="No space left"):
        recover_image(NOISY, SMALL, every=4, checkpoint=path)
    assert calls[:2] == [False, True]
    assert [p.name for p in tmp_path.iterdir()] == ["run.checkpoint"]
    monkeypatch.setattr(np, "savez", savez)
    again = recover_image(NOISY, SMALL, every=4, checkpoint=path)
    assert np.array_equal(again.image, uninterrupted.image)


@pytest.mark.slow
def test_a_killed_process_resumes_to_the_same_result(tmp_path):
    code = f"""
import numpy as np, torch
torch.set_num_threads(1)
from discrepant.image import Settings, recover_image
from discrepant.image.deep_image_prior import fit
fit.SECONDS_BETWEEN_CHECKPOINTS = 0.2
image = np.random.default_rng(0).random((64, 64, 3))
result = recover_image(
    image, Settings(width=8, steps=400, rate=0.1), every=10,
    checkpoint={str(tmp_path / "run")!r}, truth=image,
)
np.save({str(tmp_path / "image.npy")!r}, result.image)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    uninterrupted = np.load(tmp_path / "image.npy")
    (tmp_path / "image.npy").unlink()
    (tmp_path / "run").unlink()
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", code])
        time.sleep(5)
        process.kill()
        process.wait()
    subprocess.run([sys.executable, "-c", code], check=True)
    assert np.array_equal(uninterrupted, np.load(tmp_path / "image.npy"))
