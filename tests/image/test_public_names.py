"""The public names of images are there, listed, and loaded when first used."""

import subprocess
import sys

import pytest

import discrepant.image
import discrepant.image.restore


@pytest.mark.parametrize("package", [discrepant.image, discrepant.image.restore])
def test_public_names_are_listed_and_there(package):
    assert dir(package) == sorted(package.__all__)
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing


def test_every_name_has_its_module():
    assert sorted(discrepant.image._MODULES) == discrepant.image.__all__


def test_fits_show_their_arguments():
    import inspect

    expected = "image settings truth every device random_state checkpoint progress"
    for fit in (discrepant.image.recover_image, discrepant.image.dip_l1):
        assert " ".join(inspect.signature(fit).parameters) == expected


def test_restoring_loads_no_network():
    code = (
        "import sys, numpy as np; from discrepant import restore\n"
        "restore(np.eye(8), quality='fast'); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
