"""The web server: access control, uploads, jobs, and the files that it deletes."""

import json
import sys
import threading
import time

import numpy as np
import pytest
from starlette.testclient import TestClient

from discrepant.core.errors import InputError
from discrepant.core.progress import announce
from discrepant.server.access import AccessGuard
from discrepant.server.app import build_app
from discrepant.server.jobs import MAX_JOBS, Jobs, Upload
from discrepant.server.run import serve

ORIGIN = "http://127.0.0.1:8000"
TOKEN = "a-token-that-nobody-knows"


def client(app, **headers):
    return TestClient(app, base_url=ORIGIN, headers={"origin": ORIGIN, **headers})


@pytest.fixture
def app():
    return AccessGuard(build_app(limit=100_000), {"127.0.0.1:8000"}, TOKEN)


@pytest.fixture
def page(app):
    with client(app) as page:
        assert page.get("/", params={"token": TOKEN}).status_code == 200
        yield page


def csv_table(rows=80):
    """Return the text of a table with one gross error, in row 8 of column c."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(rows, 1)) + 0.1 * rng.normal(size=(rows, 4))
    values[7, 2] += 9
    return "a,b,c,d\n" + "\n".join(",".join(f"{v:.3f}" for v in row) for row in values)


def wait_for(page, job, timeout=120):
    """Return the state of a job when it has ended."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        state = next(k for k in page.get("/jobs").json() if k["key"] == job["key"])
        if state["state"] in ("done", "failed", "cancelled"):
            return state
        time.sleep(0.05)
    raise AssertionError("the job did not end")


def test_requests_without_the_token_are_refused(app):
    with client(app) as page:
        for path in ("/", "/?token=wrong", "/jobs", f"/jobs?token={TOKEN}"):
            response = page.get(path)
            assert response.status_code == 403
            assert "token" in response.text
            assert "set-cookie" not in response.headers


def test_the_first_request_sets_a_cookie_for_the_others(app):
    with client(app) as page:
        first = page.get("/", params={"token": TOKEN})
        assert "HttpOnly; SameSite=Strict" in first.headers["set-cookie"]
        assert page.get("/jobs").json() == []


@pytest.mark.parametrize("host", ["evil.example:8000", "127.0.0.1", "localhost:9999"])
def test_other_host_names_are_refused(app, host):
    with client(app, host=host) as page:
        assert page.get("/", params={"token": TOKEN}).status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", ""])
def test_changes_from_other_origins_are_refused(page, origin):
    sent = page.post(
        "/jobs?name=t.csv", content=csv_table(), headers={"origin": origin}
    )
    assert sent.status_code == 403
    assert page.get("/jobs").json() == []


def test_every_response_has_the_security_headers(page):
    for path in ("/", "/static/main.js", "/jobs", "/nowhere"):
        headers = page.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_the_page_loads_nothing_from_other_servers(page):
    for name in ("main.js", "image.js", "table.js", "video.js", "style.css"):
        text = page.get(f"/static/{name}").text
        assert "://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert page.get("/static/..%2Fapp.py").status_code == 404


def test_a_table_is_cleaned_and_flags_can_be_rejected(page):
    job = page.post("/jobs?name=my table.csv", content=csv_table()).json()
    ended = wait_for(page, job)
    result = ended["result"]
    assert ended["state"] == "done"
    assert [(f["row"], f["column"]) for f in result["flagged"]] == [("8", "c")]
    assert result["command"] == "discrepant clean 'my table.csv' -o 'my table'"
    link = f"/jobs/{job['key']}/files/{result['cleaned']}"
    assert page.get(link).text != csv_table()
    response = page.post(f"/jobs/{job['key']}/rejected", content=json.dumps([0]))
    assert response.status_code == 200
    assert page.get(link).text.rstrip("\n") == csv_table()
    for invalid in ("[1]", "[-1]", '["0"]', "{}", "nonsense"):
        response = page.post(f"/jobs/{job['key']}/rejected", content=invalid)
        assert response.status_code == 400
        assert "rejected flags" in response.json()["error"]


def test_one_event_stream_reports_all_jobs_until_shutdown():
    with client(build_app(limit=100_000, shutting_down=lambda: True)) as page:
        jobs = [page.post("/jobs?name=t.csv", content=csv_table()).json() for _ in "ab"]
        for job in jobs:
            wait_for(page, job)
        page.delete(f"/jobs/{jobs[0]['key']}")
        parts = page.get("/events").text.strip().split("\n\n")
        (last,) = (json.loads(part.removeprefix("data: ")) for part in parts)
        assert (last["key"], last["state"]) == (jobs[1]["key"], "done")


def test_rejected_flags_change_every_file_and_the_map(page):
    job = page.post("/jobs?name=t.csv", content=csv_table()).json()
    files = f"/jobs/{job['key']}/files"
    before = wait_for(page, job)["result"]
    assert "rejected by hand" not in page.get(f"{files}/report.html").text
    page.post(f"/jobs/{job['key']}/rejected", content="[0]")
    after = wait_for(page, job)["result"]
    assert (before["rejected"], after["rejected"]) == ([], [0])
    assert before["map"] != after["map"]
    assert "1 of 1 flags were rejected by hand" in page.get(f"{files}/report.html").text
    assert len(page.get(f"{files}/flagged.csv").text.splitlines()) == 1


def test_announcements_are_shown_at_the_running_job():
    jobs, finish = Jobs(), threading.Event()
    upload = Upload("t.csv", jobs.new_folder() / "upload.csv")
    job = jobs.add("table", upload, lambda *_: finish.wait(60))
    while job.state != "working":
        time.sleep(0.01)
    announce("Compiling for this machine.")
    assert job.snapshot(0)["note"] == "Compiling for this machine."
    finish.set()
    jobs.close()


def test_large_and_empty_uploads_are_refused_and_deleted(page, app):
    sent = page.post("/jobs?name=t.csv", content=b"1,2\n" * 50_000)
    assert sent.status_code == 413
    assert "limit of this page" in sent.json()["error"]

    def without_length():
        for _ in range(100):
            yield b"1,2\n" * 1000

    assert page.post("/jobs?name=t.csv", content=without_length()).status_code == 413
    assert page.post("/jobs?name=t.csv", content=b"").status_code == 400
    assert not list(app.app.state.jobs.folder.iterdir())


@pytest.mark.parametrize("name", ["../../etc/passwd.csv", "/x.csv", "a\x00b.csv"])
def test_names_are_never_used_as_paths(page, app, name):
    job = page.post("/jobs", params={"name": name}, content=csv_table()).json()
    assert wait_for(page, job)["state"] == "done"
    folder = app.app.state.jobs.folder
    assert [path.name for path in folder.iterdir()] == [job["key"]]
    for path in ("upload.csv", "..%2F..%2Fx", "summary.json"):
        assert page.get(f"/jobs/{job['key']}/files/{path}").status_code == 404


def test_unsupported_file_types_are_refused(page):
    response = page.post("/jobs?name=letter.docx", content=b"hello")
    assert response.status_code == 415
    assert ".csv" in response.json()["error"]


def test_a_decompression_bomb_fails_with_a_message(page):
    import struct
    import zlib

    def chunk(kind, content):
        body = kind + content
        return (
            struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))
        )

    size = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 6, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size)
    bomb += chunk(b"IDAT", zlib.compress(bytes(10_000))) + chunk(b"IEND", b"")
    ended = wait_for(page, page.post("/jobs?name=bomb.png", content=bomb).json())
    assert ended["state"] == "failed"
    assert "bomb.png" in ended["error"] or "memory" in ended["error"]
    assert "upload" not in ended["error"]


def test_unusable_videos_fail_with_a_message(page, tmp_path, monkeypatch):
    from discrepant.server import video_job
    from discrepant.video.io.video_file import VideoWriter

    ended = wait_for(page, page.post("/jobs?name=v.mp4", content=b"no video").json())
    assert ended["error"].startswith("v.mp4 cannot be read as a video")
    with VideoWriter(tmp_path / "v.mp4", 25, (32, 48)) as writer:
        for _ in range(6):
            writer.write(np.zeros((32, 48), np.uint8))
    video = (tmp_path / "v.mp4").read_bytes()
    monkeypatch.setattr(video_job, "MAX_FRAMES", 5)
    ended = wait_for(page, page.post("/jobs?name=v.mp4", content=video).json())
    assert "v.mp4 has more than 5 frames" in ended["error"]
    monkeypatch.setenv("DISCREPANT_MEMORY", "0.0001")
    ended = wait_for(page, page.post("/jobs?name=v.mp4", content=video).json())
    assert "v.mp4 needs some" in ended["error"]
    monkeypatch.setitem(sys.modules, "av", None)
    response = page.post("/jobs?name=v.mp4", content=video)
    assert (response.status_code, page.get("/jobs").json()[3:]) == (400, [])
    assert "[video]" in response.json()["error"]


def test_an_array_is_an_image_or_a_table_as_requested(page):
    import io

    file = io.BytesIO()
    np.save(file, np.add.outer(np.arange(40), np.arange(50)).astype(np.uint8))
    for kind in ("image", "table"):
        job = page.post(f"/jobs?name=a.npy&kind={kind}", content=file.getvalue()).json()
        assert job["kind"] == kind
        assert wait_for(page, job)["state"] == "done"


def test_removing_a_job_deletes_its_files(page, app):
    job = page.post("/jobs?name=t.csv", content=csv_table()).json()
    wait_for(page, job)
    assert page.delete(f"/jobs/{job['key']}").status_code == 204
    assert not list(app.app.state.jobs.folder.iterdir())
    response = page.get(f"/jobs/{job['key']}/files/flagged.csv")
    assert (response.status_code, "was removed" in response.text) == (404, True)


def test_a_file_deleted_during_a_request_is_reported_as_removed(page, monkeypatch):
    job = page.post("/jobs?name=t.csv", content=csv_table()).json()
    link = f"/jobs/{job['key']}/files/{wait_for(page, job)['result']['cleaned']}"

    def deleted(path):
        raise FileNotFoundError(path)

    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.read_bytes", deleted)
        response = page.get(link)
    assert (response.status_code, "was removed" in response.json()["error"]) == (
        404,
        True,
    )


def test_the_oldest_jobs_are_removed_beyond_the_limit(page, app):
    for _ in range(MAX_JOBS + 2):
        wait_for(page, page.post("/jobs?name=t.csv", content=b"a,b\nx,y\n").json())
    assert len(page.get("/jobs").json()) == MAX_JOBS
    assert len(list(app.app.state.jobs.folder.iterdir())) == MAX_JOBS


def test_shutdown_deletes_all_files(app):
    with client(app) as page:
        page.get("/", params={"token": TOKEN})
        page.post("/jobs?name=t.csv", content=csv_table())
    assert not app.app.state.jobs.folder.exists()


def test_only_this_machine_can_connect(monkeypatch):
    messages, addresses = [], []

    def run(self, sockets):
        addresses.append(sockets[0].getsockname()[0])
        sockets[0].close()

    monkeypatch.setattr("uvicorn.Server.run", run)
    serve(show=False, say=messages.append)
    assert addresses == ["127.0.0.1"]
    assert messages[-1].startswith("Open http://127.0.0.1:")


def test_a_port_in_use_is_reported():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(InputError, match="choose another port"):
            serve(port=listener.getsockname()[1], show=False)
