"""The public names of `discrepant.image` exist, are listed, and load when used."""

import subprocess
import sys

import pytest

import discrepant.image


def test_public_names_are_listed_and_exist():
    assert dir(discrepant.image) == sorted(discrepant.image.__all__)
    for name in discrepant.image.__all__:
        assert getattr(discrepant.image, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = discrepant.image.nothing


def test_every_public_name_has_a_module():
    assert sorted(discrepant.image._MODULES) == discrepant.image.__all__


def test_fits_have_a_signature():
    import inspect

    expected = "image settings truth every device random_state checkpoint progress"
    for fit in (discrepant.image.recover_image, discrepant.image.dip_l1):
        assert " ".join(inspect.signature(fit).parameters) == expected


def test_restore_does_not_import_torch():
    code = (
        "import sys, numpy as np; from discrepant import restore\n"
        "restore(np.eye(8), quality='fast'); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
