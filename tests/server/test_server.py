"""The page's server: whom it answers, what it takes, and what it leaves behind."""

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
from discrepant.server.app import build
from discrepant.server.job_result import Upload
from discrepant.server.jobs import KEPT
from discrepant.server.run import serve

HERE = "http://127.0.0.1:8000"
TOKEN = "a-token-that-nobody-knows"


def client(app, **headers):
    given = {"origin": HERE, **headers}
    return TestClient(app, base_url=HERE, headers=given)


@pytest.fixture
def app():
    return AccessGuard(build(limit=100_000), {"127.0.0.1:8000"}, TOKEN)


@pytest.fixture
def page(app):
    with client(app) as page:
        assert page.get("/", params={"token": TOKEN}).status_code == 200
        yield page


def table(rows=80):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(rows, 1)) + 0.1 * rng.normal(size=(rows, 4))
    values[7, 2] += 9
    return "a,b,c,d\n" + "\n".join(",".join(f"{v:.3f}" for v in row) for row in values)


def ended(page, job, patience=120):
    until = time.monotonic() + patience
    while time.monotonic() < until:
        found = next(k for k in page.get("/jobs").json() if k["key"] == job["key"])
        if found["state"] in ("done", "failed", "cancelled"):
            return found
        time.sleep(0.05)
    raise AssertionError("the job did not end")


def test_nobody_is_answered_without_the_token(app):
    with client(app) as page:
        for path in ("/", "/?token=wrong", "/jobs", f"/jobs?token={TOKEN}"):
            answer = page.get(path)
            assert answer.status_code == 403
            assert "token" in answer.text
            assert "set-cookie" not in answer.headers


def test_the_first_visit_gives_a_cookie_that_serves_from_then_on(app):
    with client(app) as page:
        first = page.get("/", params={"token": TOKEN})
        assert "HttpOnly; SameSite=Strict" in first.headers["set-cookie"]
        assert page.get("/jobs").json() == []


@pytest.mark.parametrize("host", ["evil.example:8000", "127.0.0.1", "localhost:9999"])
def test_other_names_of_this_machine_are_refused(app, host):
    with client(app, host=host) as page:
        assert page.get("/", params={"token": TOKEN}).status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", ""])
def test_changes_come_from_the_page_itself(page, origin):
    sent = page.post("/jobs?name=t.csv", content=table(), headers={"origin": origin})
    assert sent.status_code == 403
    assert page.get("/jobs").json() == []


def test_every_answer_forbids_what_the_page_does_not_need(page):
    for path in ("/", "/static/main.js", "/jobs", "/nowhere"):
        headers = page.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_the_page_loads_nothing_from_elsewhere(page):
    for name in ("main.js", "picture.js", "table.js", "video.js", "style.css"):
        text = page.get(f"/static/{name}").text
        assert "://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert page.get("/static/..%2Fsite.py").status_code == 404


def test_a_table_comes_back_clean(page):
    job = page.post("/jobs?name=my table.csv", content=table()).json()
    told = ended(page, job)
    facts = told["facts"]
    assert told["state"] == "done"
    assert [(f["row"], f["column"]) for f in facts["flagged"]] == [("8", "c")]
    assert facts["command"] == "discrepant clean 'my table.csv' -o 'my table'"
    link = f"/jobs/{job['key']}/files/{facts['cleaned']}"
    assert page.get(link).text != table()
    chosen = page.post(f"/jobs/{job['key']}/choices", content=json.dumps([0]))
    assert chosen.status_code == 200
    assert page.get(link).text == table()
    for wrong in ("[1]", "[-1]", '["0"]', "{}", "nonsense"):
        answer = page.post(f"/jobs/{job['key']}/choices", content=wrong)
        assert answer.status_code == 400
        assert "choices" in answer.json()["reason"]


def test_one_stream_tells_of_all_jobs_until_the_server_ends():
    with client(build(limit=100_000, over=lambda: True)) as page:
        jobs = [page.post("/jobs?name=t.csv", content=table()).json() for _ in "ab"]
        for job in jobs:
            ended(page, job)
        page.delete(f"/jobs/{jobs[0]['key']}")
        parts = page.get("/events").text.strip().split("\n\n")
        (last,) = (json.loads(part.removeprefix("data: ")) for part in parts)
        assert (last["key"], last["state"]) == (jobs[1]["key"], "done")


def test_choices_reach_every_file_and_every_tab(page):
    job = page.post("/jobs?name=t.csv", content=table()).json()
    files = f"/jobs/{job['key']}/files"
    before = ended(page, job)["facts"]
    assert "rejected by hand" not in page.get(f"{files}/report.html").text
    page.post(f"/jobs/{job['key']}/choices", content="[0]")
    after = ended(page, job)["facts"]
    assert (before["rejected"], after["rejected"]) == ([], [0])
    assert before["map"] != after["map"]
    assert "1 of 1 flags were rejected by hand" in page.get(f"{files}/report.html").text
    assert len(page.get(f"{files}/flagged.csv").text.splitlines()) == 1


def test_what_takes_long_is_said_of_the_job_at_work():
    from discrepant.server.jobs import Jobs

    jobs, going = Jobs(), threading.Event()
    upload = Upload("t.csv", jobs.room() / "upload.csv")
    job = jobs.add("table", upload, lambda *_: going.wait(60))
    while job.state != "working":
        time.sleep(0.01)
    announce("Compiling for this machine.")
    assert job.snapshot(0)["note"] == "Compiling for this machine."
    going.set()
    jobs.close()


def test_what_is_too_large_is_refused_before_it_is_taken(page, app):
    sent = page.post("/jobs?name=t.csv", content=b"1,2\n" * 50_000)
    assert sent.status_code == 413
    assert "limit of this page" in sent.json()["reason"]

    def unsaid():
        for _ in range(100):
            yield b"1,2\n" * 1000

    assert page.post("/jobs?name=t.csv", content=unsaid()).status_code == 413
    assert page.post("/jobs?name=t.csv", content=b"").status_code == 400
    assert not list(app.app.state.jobs.folder.iterdir())


@pytest.mark.parametrize("name", ["../../etc/passwd.csv", "/x.csv", "a\x00b.csv"])
def test_names_are_never_paths(page, app, name):
    job = page.post("/jobs", params={"name": name}, content=table()).json()
    assert ended(page, job)["state"] == "done"
    folder = app.app.state.jobs.folder
    assert [path.name for path in folder.iterdir()] == [job["key"]]
    for path in ("upload.csv", "..%2F..%2Fx", "summary.json"):
        assert page.get(f"/jobs/{job['key']}/files/{path}").status_code == 404


def test_a_file_of_no_known_kind_is_refused(page):
    answer = page.post("/jobs?name=letter.docx", content=b"hello")
    assert answer.status_code == 415
    assert ".csv" in answer.json()["reason"]


def test_a_bomb_fails_with_a_sentence(page):
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
    told = ended(page, page.post("/jobs?name=bomb.png", content=bomb).json())
    assert told["state"] == "failed"
    assert "bomb.png" in told["reason"] or "memory" in told["reason"]
    assert "upload" not in told["reason"]


def test_a_video_is_refused_in_a_sentence(page, tmp_path, monkeypatch):
    from discrepant.server import video_job as videos
    from discrepant.video.io.video_file import VideoWriter

    told = ended(page, page.post("/jobs?name=v.mp4", content=b"no video").json())
    assert told["reason"].startswith("v.mp4 cannot be read as a video")
    with VideoWriter(tmp_path / "v.mp4", 25, (32, 48)) as writer:
        for _ in range(6):
            writer.write(np.zeros((32, 48), np.uint8))
    made = (tmp_path / "v.mp4").read_bytes()
    monkeypatch.setattr(videos, "FRAMES", 5)
    told = ended(page, page.post("/jobs?name=v.mp4", content=made).json())
    assert "v.mp4 has more than 5 frames" in told["reason"]
    monkeypatch.setenv("DISCREPANT_MEMORY", "0.0001")
    told = ended(page, page.post("/jobs?name=v.mp4", content=made).json())
    assert "v.mp4 needs some" in told["reason"]
    monkeypatch.setitem(sys.modules, "av", None)
    answer = page.post("/jobs?name=v.mp4", content=made)
    assert (answer.status_code, page.get("/jobs").json()[3:]) == (400, [])
    assert "[video]" in answer.json()["reason"]


def test_an_array_is_what_it_is_said_to_be(page):
    import io

    file = io.BytesIO()
    np.save(file, np.add.outer(np.arange(40), np.arange(50)).astype(np.uint8))
    for kind in ("picture", "table"):
        job = page.post(f"/jobs?name=a.npy&kind={kind}", content=file.getvalue()).json()
        assert job["kind"] == kind
        assert ended(page, job)["state"] == "done"


def test_a_job_that_is_removed_leaves_nothing(page, app):
    job = page.post("/jobs?name=t.csv", content=table()).json()
    ended(page, job)
    headers = {"origin": HERE}
    assert page.delete(f"/jobs/{job['key']}", headers=headers).status_code == 204
    assert not list(app.app.state.jobs.folder.iterdir())
    answer = page.get(f"/jobs/{job['key']}/files/flagged.csv")
    assert (answer.status_code, "no longer" in answer.text) == (404, True)


def test_a_file_that_goes_while_it_is_asked_for_is_said_to_be_gone(page, monkeypatch):
    job = page.post("/jobs?name=t.csv", content=table()).json()
    link = f"/jobs/{job['key']}/files/{ended(page, job)['facts']['cleaned']}"

    def gone(path):
        raise FileNotFoundError(path)

    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.read_bytes", gone)
        answer = page.get(link)
    assert (answer.status_code, "no longer" in answer.json()["reason"]) == (404, True)


def test_only_so_many_jobs_are_kept(page, app):
    for _ in range(KEPT + 2):
        ended(page, page.post("/jobs?name=t.csv", content=b"a,b\nx,y\n").json())
    assert len(page.get("/jobs").json()) == KEPT
    assert len(list(app.app.state.jobs.folder.iterdir())) == KEPT


def test_all_is_gone_when_it_ends(app):
    with client(app) as page:
        page.get("/", params={"token": TOKEN})
        page.post("/jobs?name=t.csv", content=table())
    assert not app.app.state.jobs.folder.exists()


def test_the_world_is_let_in_only_when_asked_for():
    for host in ("0.0.0.0", "192.168.1.5", "example.org"):
        with pytest.raises(InputError, match="other machines"):
            serve(host=host, show=False)


def test_whoever_is_let_in_may_come_by_number_but_not_by_name():
    app = AccessGuard(build(), {"127.0.0.1:80"}, TOKEN, open_to_all=True)
    with TestClient(app, base_url="http://10.0.0.7:80") as page:
        # The address that a request came in at, as the server tells it.
        seen = {"server": ("10.0.0.7", 80)}
        page._transport.app = lambda scope, *rest: app({**scope, **seen}, *rest)
        asked = {"params": {"token": TOKEN}}
        assert page.get("/", headers={"host": "10.0.0.7:80"}, **asked).is_success
        for host in ("evil.example:80", "10.0.0.8:80"):
            assert page.get("/", headers={"host": host}, **asked).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "0.0.0.0", "::"])
def test_any_address_can_be_bound_to(host, monkeypatch):
    said = []
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: sockets[0].close())
    try:
        serve(host=host, anyone=True, show=False, say=said.append)
    except InputError as error:  # a machine without IPv6
        pytest.skip(str(error))
    shown = {"::1": "[::1]", "::": "[::1]", "0.0.0.0": "127.0.0.1"}.get(host, host)
    assert said[-1].startswith(f"Open http://{shown}:")
    assert ("Other machines" in said[0]) == (host in ("0.0.0.0", "::"))


def test_a_port_that_is_taken_is_said():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(InputError, match="choose another port"):
            serve(port=taken.getsockname()[1], show=False)
