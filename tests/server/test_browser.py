"""The web page in Chromium: every action that a user can take."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.messages import without_notice

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed.")
TIMEOUT = 120_000  # milliseconds; the first fit on a machine compiles


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    environment = {**os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "discrepant", "serve", "--no-open", "--limit", "2"]
    with (
        (folder / "stderr").open("w") as stderr,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment
        ) as server,
    ):
        try:
            yield re.search(r"http\S+", server.stdout.readline())[0]
        finally:
            server.terminate()
            server.wait(30)
    assert not without_notice((folder / "stderr").read_text())
    assert not list(folder.glob("discrepant-page-*"))  # all uploads are deleted


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        )
        yield opened
        opened.close()


@pytest.fixture
def page(browser, address):
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    page = context.new_page()
    page.set_default_timeout(TIMEOUT)
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    yield page
    for left in range(page.locator(".remove:visible").count(), 0, -1):
        page.locator(".remove:visible").first.click()
        page.locator(".job").nth(left - 1).wait_for(state="detached")
    context.close()
    assert not errors


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    from PIL import Image

    rng = np.random.default_rng(0)
    y, x = np.mgrid[:64, :80] / 80
    clean = 120 + 60 * np.sin(5 * x) + 50 * y + rng.normal(0, 2, (64, 80))
    values = np.clip(clean, 0, 255).astype(np.uint8)
    values[rng.random(values.shape) < 0.05] = 255
    path = tmp_path_factory.mktemp("files") / "salty.png"
    Image.fromarray(values).save(path)
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(120, 1)) + 0.1 * rng.normal(size=(120, 5))
    values[[5, 50], [1, 3]] += 9
    lines = [",".join("abcde"), *(",".join(f"{v:.3f}" for v in row) for row in values)]
    path = tmp_path_factory.mktemp("files") / "sensors.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def write_street_video(path, times):
    """Write a video that repeats 100 frames of a street; return its path."""
    from discrepant.video import example_data
    from discrepant.video.io.video_file import VideoWriter

    frames, _ = example_data.street(100, size=(48, 64))
    with VideoWriter(path, 25, frames.shape[1:3]) as writer:
        for _ in range(times):
            for frame in frames:
                writer.write(frame)
    return path


def upload(page, *files):
    """Choose files in the upload field of the page."""
    page.set_input_files("#files", [str(file) for file in files])


def wait_for_results(page, number=1):
    """Wait until the given number of jobs show their downloads."""
    page.locator(".downloads").nth(number - 1).wait_for()


def download(page, link):
    """Click a download and return the path of the file."""
    with page.expect_download() as event:
        page.locator(".downloads a", has_text=link).first.click()
    return Path(event.value.path())


def wait_until(page, expression):
    """Wait until an expression is true.

    Playwright's own function needs `eval`, which the page's security policy forbids.
    """
    for _ in range(TIMEOUT // 100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"never true: {expression}")


def test_an_image_is_restored_compared_and_painted_on(page, image):
    from PIL import Image

    upload(page, image)
    wait_for_results(page)
    assert "values were corrupted" in page.locator(".state").inner_text()
    assert "token" not in page.url
    slider_position = (
        "getComputedStyle(document.querySelector('.layers')).getPropertyValue('--cut')"
    )
    box = page.locator(".layers").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 20)
    page.mouse.up()
    assert abs(float(page.evaluate(slider_position).rstrip("%")) - 25) < 1
    page.locator(".slider").focus()
    page.keyboard.press("Home")
    assert page.evaluate(slider_position) == "0%"
    assert page.locator(".mask").is_hidden()
    page.locator(".show-mask").check()
    assert page.locator(".mask").is_visible()
    page.locator(".same summary").click()
    assert "discrepant restore salty.png" in page.locator(".command").inner_text()
    with Image.open(download(page, "salty-restored.png")) as restored:
        assert restored.size == (80, 64)

    page.locator(".start-paint").click()
    box = page.locator(".paint").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + 60)
    page.mouse.up()
    page.locator(".paint").focus()
    page.keyboard.down("Space")
    page.keyboard.press("ArrowRight")
    page.keyboard.up("Space")
    before = page.locator(".state").inner_text()
    page.locator(".again").click()
    wait_for_results(page, 2)
    again = page.locator(".state").first.inner_text()
    percent = [float(re.match(r"([\d.]+)%", text)[1]) for text in (before, again)]
    assert percent[1] > percent[0] + 1  # painted pixels are replaced too
    command = "document.querySelector('.command').textContent"
    assert page.evaluate(command).endswith("--known-bad salty-marks.png")
    with Image.open(download(page, "salty-marks.png")) as marks:
        painted = np.asarray(marks) > 0
    assert 0.01 < painted.mean() < 0.5
    page.locator(
        ".start-paint"
    ).first.click()  # painting continues on the earlier paint
    opaque = page.evaluate(
        "(() => { const c = document.querySelector('.paint'); return [...c.getContext("
        "'2d').getImageData(0, 0, 80, 64).data].filter((v, k) => k % 4 == 3 && v > 127)"
        ".length; })()"
    )
    assert opaque == painted.sum()


def test_flags_of_a_table_are_sorted_and_rejected(page, address, table):
    upload(page, table)
    wait_for_results(page)
    assert "2 cells are flagged" in page.locator(".state").inner_text()
    assert page.locator(".map img").is_visible()
    rows = page.locator("tbody tr")
    assert rows.count() == 2
    page.locator("thead button[data-by=row]").click()
    assert rows.nth(0).locator("td").nth(1).inner_text() == "51"
    rows.nth(0).locator("input").uncheck()
    page.locator(".saved", has_text="1 rejected").wait_for()
    old = table.read_text().splitlines()
    new = download(page, "sensors-cleaned.csv").read_text().splitlines()
    changed = [k for k in range(len(old)) if old[k] != new[k]]
    assert (len(new), changed) == (len(old), [6])
    assert len(download(page, "sensors-flagged.csv").read_text().splitlines()) == 2
    report = download(page, "sensors-report.html").read_text()
    assert "sensors.csv" in report
    assert "1 of 2 flags were rejected by hand" in report
    page.goto(address)  # the choice is kept, and can be undone
    page.locator(".saved", has_text="1 rejected").wait_for()
    assert page.locator("tr.rejected").count() == 1
    page.locator(".accept-all").click()
    page.locator(".saved", has_text="0 rejected").wait_for()
    assert page.locator("tr.rejected").count() == 0


def test_a_video_is_previewed_and_played(page, tmp_path):
    responses = []  # the previews may be replaced before they can be located
    page.on("response", lambda r: responses.append((r.url, r.status)))
    upload(page, write_street_video(tmp_path / "street.mp4", 1))
    wait_for_results(page)
    for name in ("frame", "background", "foreground"):
        ok = (f"{name}.png" in url and status == 200 for url, status in responses)
        assert any(ok), responses
    assert "Movement found in" in page.locator(".state").inner_text()
    assert page.locator(".live").is_hidden()
    size = "[...document.querySelectorAll('video')].map((v) => v.videoWidth)"
    wait_until(page, "document.querySelector('.masks').readyState >= 2")
    wait_until(page, "document.querySelector('.side-by-side').readyState >= 2")
    assert page.evaluate(size) == [192, 64]
    wait_until(page, "document.querySelector('.last-background').naturalWidth === 64")
    page.locator(".activity svg").click()  # in the middle of four seconds
    wait_until(page, "document.querySelector('.masks').currentTime > 1.5")
    assert page.locator(".unplayed").is_hidden()
    page.locator(".same summary").click()
    assert "discrepant video street.mp4" in page.locator(".command").inner_text()
    assert download(page, "street-mask.mp4").stat().st_size > 1000
    assert len(download(page, "street-activity.csv").read_text().splitlines()) == 101


def test_a_browser_without_h264_names_the_downloads(page, address, tmp_path):
    page.route("**/*.mp4", lambda route: route.fulfill(body=b"no video"))
    page.goto(address)
    upload(page, write_street_video(tmp_path / "street.mp4", 1))
    wait_for_results(page)
    page.locator(".unplayed", has_text="download them instead").wait_for()
    assert page.locator(".downloads").inner_text().count(".mp4") == 2


def test_a_video_is_cancelled(page, tmp_path):
    upload(page, write_street_video(tmp_path / "long.mp4", 40))
    page.locator(".cancel").click()
    page.locator(".state", has_text="Cancelled.").wait_for()
    assert page.locator(".live").count() == 0


def test_unusable_files_get_a_message(page, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"\x89PNG\r\n\x1a\nnot an image")
    upload(page, broken)
    page.locator(".failed .state", has_text="broken.png cannot be read").wait_for()
    assert "upload" not in page.locator(".state").inner_text()
    large = tmp_path / "large.csv"
    large.write_bytes(b"1,2\n" * 600_000)
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear reader,")
    upload(page, large, letter)
    page.locator(
        "#alert", has_text="letter.txt: This file type is not supported"
    ).wait_for()
    assert "the limit of this page is 2 MB" in page.locator("#alert").inner_text()


def test_queued_jobs_are_cancelled_in_two_tabs(page, address, tmp_path, table):
    from PIL import Image

    rng = np.random.default_rng(0)
    slow = tmp_path / "slow.png"
    Image.fromarray(rng.integers(0, 256, (400, 400, 3), dtype=np.uint8)).save(slow)
    upload(page, slow, table)
    page.locator(".state", has_text="Waiting for 1 other file.").wait_for()
    other = page.context.new_page()
    other.set_default_timeout(TIMEOUT)
    other.goto(address)
    other.locator("h2", has_text="slow.png").wait_for()
    page.locator(".job", has_text="slow.png").locator(".cancel").click()
    for tab in (page, other):
        tab.locator(".state", has_text="Cancelled.").wait_for()
    wait_for_results(page)
    wait_for_results(other)
    other.close()


def test_many_jobs_can_all_be_cancelled(page, tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    names = [tmp_path / f"slow{k}.png" for k in range(8)]
    for name in names:
        Image.fromarray(rng.integers(0, 256, (400, 400), dtype=np.uint8)).save(name)
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear reader,")
    upload(page, letter, *names)
    page.locator(".state", has_text="Waiting for 7 other files.").wait_for()
    # The message about the refused file stays while other files are uploaded.
    assert "letter.txt" in page.locator("#alert").inner_text()
    for number in range(8):
        page.locator(".job", has_text=f"slow{7 - number}").locator(".cancel").click()
    page.locator("#jobs:not(:has(.cancel:not([hidden])))").wait_for()
    assert page.locator(".state", has_text="Cancelled.").count() >= 7


def test_a_lost_server_is_reported(browser, tmp_path):
    command = [sys.executable, "-m", "discrepant", "serve", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        page = browser.new_page()
        try:
            page.goto(re.search(r"http\S+", server.stdout.readline())[0])
        finally:
            server.terminate()
            server.wait(30)
        page.locator(
            "#lost", has_text="does not respond"
        ).wait_for()  # without any action
        file = tmp_path / "table.csv"
        file.write_text("a,b\n1,2\n")
        upload(page, file)
        page.locator("#alert", has_text="does not respond").wait_for()
        page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone(browser, address, table, scheme):
    context = browser.new_context(
        viewport={"width": 360, "height": 700}, color_scheme=scheme
    )
    page = context.new_page()
    page.set_default_timeout(TIMEOUT)
    page.goto(address)
    upload(page, table)
    wait_for_results(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    context.close()
