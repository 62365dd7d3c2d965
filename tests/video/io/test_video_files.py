"""Video files: reading, writing, interruption, damaged files and error messages."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest

from discrepant import InputError, separate
from discrepant.video.example_data import street

av = pytest.importorskip("av")

from discrepant.video.io.video_file import VideoFile, VideoWriter  # noqa: E402
from discrepant.video.separate_file import _panel_labels, separate_file  # noqa: E402

COMMAND = [sys.executable, "-m", "discrepant", "video"]


@pytest.fixture(scope="module")
def frames():
    return street(60)[0]


@pytest.fixture(scope="module")
def file(frames, tmp_path_factory):
    path = tmp_path_factory.mktemp("video") / "street.mp4"
    with VideoWriter(path, 20, frames.shape[1:3]) as writer:
        for frame in frames:
            writer.write(frame)
    return path


def count(path):
    with av.open(str(path)) as container:
        return sum(1 for _ in container.decode(video=0))


def test_video_file_round_trip(file, frames):
    source = VideoFile(file)
    read = np.stack(list(source))
    assert read.shape == frames.shape
    assert np.abs(read.astype(int) - frames).mean() < 6
    assert source.rate == 20 and source.count == 60


def test_all_result_files_are_complete(file, tmp_path):
    report = separate_file(str(file), tmp_path, background=True, masks=True)
    for name in ("mask.mp4", "side-by-side.mp4", "background.mp4"):
        assert count(tmp_path / name) == 60
    assert len(list((tmp_path / "masks").iterdir())) == 60
    assert (tmp_path / "background.png").stat().st_size > 1000
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["frames"] == 60 and summary["complete"]
    assert report.active > 40 and not report.caveats
    assert len((tmp_path / "activity.csv").read_text().splitlines()) == 61
    boxes = (tmp_path / "boxes.csv").read_text().splitlines()
    assert boxes[0] == "frame,x,y,width,height,area" and len(boxes) > 40
    with pytest.raises(InputError, match="exists already"):
        separate_file(str(file), tmp_path)


def test_stopping_leaves_complete_files(file, tmp_path):
    notes = []

    def progress(fraction, note):
        notes.append(note)
        return len(notes) < 25

    report = separate_file(str(file), tmp_path, progress=progress)
    assert not report.complete
    assert count(tmp_path / "side-by-side.mp4") == report.frames == 25
    assert "frame 1, " in notes[0] and "per second" in notes[0]


def test_ctrl_c_leaves_complete_files(tmp_path):
    run = subprocess.Popen(
        [*COMMAND, "-", "-o", tmp_path],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    rng = np.random.default_rng(0)
    frame = b"FRAME\n" + rng.integers(50, 60, 48 * 64, np.uint8).tobytes()
    run.stdin.write(b"YUV4MPEG2 W64 H48 F25:1 Cmono\n")
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob(".discrepant-*/mask.mp4")):
        run.stdin.write(frame)
        run.stdin.flush()
        assert time.monotonic() < deadline
    for _ in range(20):
        run.stdin.write(frame)
    run.stdin.flush()
    run.send_signal(signal.SIGINT)
    with suppress(BrokenPipeError):  # it may have ended by now
        run.stdin.write(frame * 20)
    run.stdin.close()
    assert "stopping" in run.stderr.read().decode()
    assert run.wait(300) == 0
    run.stderr.close()
    assert count(tmp_path / "mask.mp4") >= 1


def test_truncated_file_is_used_up_to_its_end(frames, tmp_path):
    whole, part = tmp_path / "whole.mkv", tmp_path / "part.mkv"
    with VideoWriter(whole, 20, frames.shape[1:3]) as writer:
        for frame in frames:
            writer.write(frame)
    data = whole.read_bytes()
    part.write_bytes(data[: len(data) // 2])
    with pytest.warns(UserWarning, match="truncated"):
        result = separate(part)
    assert 10 < len(result.foreground) < 60


def test_frames_too_large_for_memory_are_refused(file, monkeypatch):
    monkeypatch.setenv("DISCREPANT_MEMORY", "0.01")  # 96×128 pixels take 13 MB
    with pytest.raises(InputError, match=r"needs some .* make its frames smaller"):
        separate(file)
    monkeypatch.setenv("DISCREPANT_MEMORY", "0.0005")
    with pytest.raises(InputError, match="stream=True"):
        separate(np.zeros((60, 64, 80), np.uint8))


def test_images_too_large_for_memory_are_refused(frames, tmp_path, monkeypatch):
    from PIL import Image

    for k in range(3):
        Image.fromarray(frames[k]).save(tmp_path / f"{k}.png")
    monkeypatch.setenv("DISCREPANT_MEMORY", "0.01")  # 96×128 pixels take 13 MB
    with pytest.raises(InputError, match=r"needs some .* make its frames smaller"):
        separate(tmp_path)


def test_lists_of_other_files_are_refused(file, tmp_path):
    shutil.copy(file, tmp_path / "real.mp4")
    (tmp_path / "a.mp4").write_text("ffconcat version 1.0\nfile real.mp4\n")
    (tmp_path / "b.mp4").write_text("#EXTM3U\n#EXTINF:9,\nhttp://127.0.0.1/c.ts\n")
    for name, message in (
        ("a.mp4", "list of other files"),
        ("b.mp4", "cannot be read"),
    ):
        with pytest.raises(InputError, match=message):
            separate(tmp_path / name)


def test_text_file_in_a_folder_is_ignored(frames, tmp_path):
    from PIL import Image

    for k, frame in enumerate(frames[:20]):
        Image.fromarray(frame).save(tmp_path / f"{k:03d}.png")
    (tmp_path / "notes.txt").write_text("not an image")
    with pytest.warns(UserWarning, match="were ignored: notes.txt"):
        result = separate(tmp_path)
    assert result.foreground.shape == frames[:20].shape[:3]


def test_file_without_video_is_refused(tmp_path):
    sound = tmp_path / "sound.wav"
    with av.open(str(sound), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        silence = av.AudioFrame.from_ndarray(
            np.zeros((1, 8000), np.int16), format="s16", layout="mono"
        )
        silence.sample_rate = 8000
        for packet in [*stream.encode(silence), *stream.encode()]:
            container.mux(packet)
    with pytest.raises(InputError, match="holds no video stream"):
        separate(sound)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("nowhere.mp4", "There is no file"),
        ("text.mp4", "cannot be read as a video"),
        ("empty", "holds no images"),
    ],
)
def test_invalid_files_are_refused_without_a_folder(file, message, tmp_path):
    (tmp_path / "text.mp4").write_text("no video")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=message):
        separate_file(str(tmp_path / file), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_pipe_is_read_as_a_video(frames, tmp_path):
    file = tmp_path / "street.mkv"  # an MP4 file has its index at the end
    with VideoWriter(file, 20, frames.shape[1:3]) as writer:
        for frame in frames:
            writer.write(frame)
    subprocess.run(
        [*COMMAND, "-", "-o", tmp_path],
        input=file.read_bytes(),
        check=True,
        timeout=300,
    )
    assert count(tmp_path / "mask.mp4") == 60
    done = subprocess.run(
        [*COMMAND, "-", "-o", tmp_path / "none"],
        input=b"no video",
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 2 and b"cannot be read as a video" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="limits of files are set by POSIX")
def test_full_disk_is_reported_and_leaves_nothing(file, tmp_path):
    def limit_file_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))

    code = (
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from discrepant.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "video", file, "-o", tmp_path / "out"],
        capture_output=True,
        text=True,
        preexec_fn=limit_file_size,
        env={**os.environ, "NUMBA_DISABLE_JIT": "0"},
    )
    assert done.returncode == 2, done.stderr
    assert "File too large" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_panels_side_by_side_have_names():
    strip = _panel_labels(240, 320)
    assert strip.shape[1] == 960 and len(strip) < 24
    assert all(strip[:, k : k + 320].max() > 200 for k in (0, 320, 640))
    assert _panel_labels(16, 20).shape == (0, 60)  # too small for a name
