"""Display of results: a sentence, an HTML card without raw arrays, a figure."""

import io
from functools import cache
from html import escape

import numpy as np
import pytest
from scipy.sparse import random as random_sparse

from discrepant import RobustPCA, Sensing, clean, recover, restore, separate
from discrepant.core.display import png
from discrepant.paper.synthetic import corrupted_matrix

Y = corrupted_matrix((60, 20), rank=2, fraction=0.05, random_state=0).observed


def corrupted_image():
    image = np.add.outer(np.arange(40), np.arange(40)).astype(np.uint8)
    image[::7, ::5] = 255
    return np.stack([image] * 3, axis=2)


def sensing_result():
    rng = np.random.default_rng(0)
    u = rng.standard_normal((8, 1))
    operator = Sensing(rng.standard_normal((200, 8, 8)))
    y = operator.forward(u @ u.T)
    y[::20] += 5
    return recover(y, operator)


def sparse_estimator():
    rng = np.random.default_rng(0)
    Z = random_sparse(80, 40, 0.5, random_state=0, format="csr")
    rows, columns = Z.nonzero()
    Z.data = np.outer(rng.normal(size=80), rng.normal(size=40))[rows, columns]
    return RobustPCA(missing="unstored", random_state=0).fit(Z)


def video_result():
    from discrepant.video.example_data import street

    return separate(street(40, size=(48, 64))[0])


def table_result():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(80, 1)) + 0.1 * rng.normal(size=(80, 5))
    values[7, 2] += 9
    return clean(values)


RESULTS = {
    "recovery": lambda: recover(Y, solver="descent", random_state=0),
    "exact": lambda: recover(Y, random_state=0),
    "sensing": sensing_result,
    "estimator": lambda: RobustPCA(random_state=0).fit(Y),
    "stored": sparse_estimator,
    "table": table_result,
    "image": lambda: restore(corrupted_image(), quality="fast"),
    "video": video_result,
}


@cache
def result(name):
    return RESULTS[name]()


@pytest.mark.parametrize("name", RESULTS)
def test_results_have_sentence_card_and_figure(name):
    shown = result(name)
    line = repr(shown)
    assert len(line) < 400
    assert "array(" not in line
    assert "array(" not in str(shown)
    html = shown._repr_html_()
    assert html.startswith('<div class="discrepant"><p><strong>')
    assert "[[" not in html
    if name != "estimator" and name != "stored":  # whose text lists its parameters
        assert html.startswith(
            f'<div class="discrepant"><p><strong>{escape(str(shown))}</strong></p>'
        )
    figure = shown.plot()
    figure.savefig(io.BytesIO())
    assert any(axes.images or axes.lines or axes.patches for axes in figure.axes)


@pytest.mark.parametrize(
    ("shape", "drawn"),
    [
        ((40, 50), (40, 50)),
        ((40, 50, 2), (40, 50)),
        ((40, 50, 4), (40, 50, 3)),
        ((6, 40, 50), (40, 50)),
        ((6, 40, 50, 3), (40, 50, 3)),
    ],
)
def test_images_of_any_shape_are_drawn(shape, drawn):
    from discrepant.core.results import History
    from discrepant.image import Restoration

    image, mask = np.zeros(shape, np.float32), np.zeros(shape, bool)
    restoration = Restoration(image, image, mask, image, mask, History())
    images = restoration._pictures()
    assert images["before"].shape == images["after"].shape == drawn
    assert images["corrupted"].shape == drawn[:2]


def test_estimators_show_their_result_above_their_parameters():
    html = result("estimator")._repr_mimebundle_()["text/html"]
    assert "of rank 2" in html
    assert html.index("of rank 2") < html.index("RobustPCA")
    assert "discrepant" not in RobustPCA()._repr_html_()[:40]


@pytest.mark.parametrize("kind", ["torch", "dask"])
def test_fits_of_any_library_are_displayed(kind):
    Y = corrupted_matrix((40, 30), 2, 0.1, random_state=0).observed
    if kind == "torch":
        Y = pytest.importorskip("torch").asarray(Y)
    else:
        Y = pytest.importorskip("dask.array").from_array(Y, chunks=(20, 30))
    pca = RobustPCA(random_state=0).fit(Y)
    assert "rank 2" in pca._repr_html_()
    assert len(pca.plot().axes) >= 3


def test_display_computes_no_certificate(monkeypatch):
    model = RobustPCA(random_state=0).fit(Y)
    kind = type(model._result)
    monkeypatch.setattr(kind, "certificate", property(lambda self: 1 / 0))
    assert "certificate_" in dir(model)
    assert "of rank 2" in model._repr_html_()


def test_names_are_escaped_in_cards():
    import pandas as pd

    frame = pd.DataFrame(result("table").original).rename(columns={2: "<script>"})
    assert "<script>" not in clean(frame)._repr_html_()


@pytest.mark.parametrize("shape", [(5, 7), (4, 6, 3)])
def test_images_in_cards_are_png(shape):
    from PIL import Image

    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    with Image.open(io.BytesIO(png(image))) as read:
        np.testing.assert_array_equal(np.asarray(read), image)
