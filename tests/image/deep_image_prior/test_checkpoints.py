"""Fits of the network that are interrupted go on where they were."""

import subprocess
import sys
import time

import numpy as np
import pytest

from discrepant.core.errors import InputError
from discrepant.image import Settings, dip_l1, recover_image
from discrepant.image.deep_image_prior import checkpoints
from discrepant.image.deep_image_prior import fit as running
from support.networks import NOISY, SMALL, TRUTH, alone  # noqa: F401 (a fixture)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("fit", [recover_image, dip_l1])
def test_a_killed_run_goes_on_to_the_same_result(tmp_path, monkeypatch, optimiser, fit):
    settings = Settings(
        width=4, optimiser=optimiser, rate=0.01, corruption_rate=0.1, steps=13
    )
    options = {"truth": TRUTH, "every": 2}
    whole = fit(NOISY, settings, **options)

    saved, save = [], checkpoints.save

    def kill_after_third(path, mark, arrays):
        saved.append(save(path, mark, arrays))
        if len(saved) == 3:
            raise Killed

    monkeypatch.setattr(checkpoints, "save", kill_after_third)
    monkeypatch.setattr(running, "SECONDS_BETWEEN", 0)
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Killed):
        fit(NOISY, settings, checkpoint=path, **options)
    resumed = fit(NOISY, settings, checkpoint=path, **options)
    assert np.array_equal(whole.image, resumed.image)
    assert np.array_equal(whole.corruption, resumed.corruption)
    assert np.array_equal(whole.best, resumed.best)
    assert set(whole.history) == set(resumed.history)
    for name in set(whole.history) - {"seconds"}:
        assert np.array_equal(whole.history[name], resumed.history[name]), name


def test_a_checkpoint_holds_no_pickles_and_is_not_mixed(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "SECONDS_BETWEEN", 0)
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


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "SECONDS_BETWEEN", 0)
    whole = recover_image(NOISY, SMALL, every=4)
    path, savez, calls = tmp_path / "run.checkpoint", np.savez, []

    def full(file, **arrays):
        calls.append(path.exists())
        if len(calls) == 1:
            savez(file, **arrays)
            return
        file.write(b"half a checkpoint")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        recover_image(NOISY, SMALL, every=4, checkpoint=path)
    assert calls[:2] == [False, True]
    assert [p.name for p in tmp_path.iterdir()] == ["run.checkpoint"]
    monkeypatch.setattr(np, "savez", savez)
    again = recover_image(NOISY, SMALL, every=4, checkpoint=path)
    assert np.array_equal(again.image, whole.image)


@pytest.mark.slow
def test_a_process_killed_outright_goes_on(tmp_path):
    code = f"""
import numpy as np, torch
torch.set_num_threads(1)
from discrepant.image import Settings, recover_image
from discrepant.image.deep_image_prior import fit
fit.SECONDS_BETWEEN = 0.2
image = np.random.default_rng(0).random((64, 64, 3))
found = recover_image(
    image, Settings(width=8, steps=400, rate=0.1), every=10,
    checkpoint={str(tmp_path / "run")!r}, truth=image,
)
np.save({str(tmp_path / "image.npy")!r}, found.image)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    whole = np.load(tmp_path / "image.npy")
    (tmp_path / "image.npy").unlink()
    (tmp_path / "run").unlink()
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", code])
        time.sleep(5)
        process.kill()
        process.wait()
    subprocess.run([sys.executable, "-c", code], check=True)
    assert np.array_equal(whole, np.load(tmp_path / "image.npy"))
