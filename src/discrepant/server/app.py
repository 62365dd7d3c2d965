"""The web application: the page, uploads, jobs and their files."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from discrepant import __version__
from discrepant.core.errors import InputError
from discrepant.image.files.formats import FORMATS as IMAGE_SUFFIXES
from discrepant.server.image_job import restore_upload
from discrepant.server.jobs import Job, Jobs, Task, Upload
from discrepant.server.table_job import clean_upload, without_flags
from discrepant.server.video_job import separate_upload
from discrepant.table.io.table_file import FORMATS as TABLE_SUFFIXES
from discrepant.video.io.video_file import VIDEOS as VIDEO_SUFFIXES
from discrepant.video.io.video_file import pyav

UPLOAD_LIMIT = 512 * 2**20  # bytes of an uploaded file, by default
EXTRA_LIMIT = 64 * 2**20  # bytes of a painted mask or a list of rejected flags
NAME_LENGTH = 200  # characters of a file's name that are displayed
EVENT_INTERVAL = 0.15  # seconds between checks for changed jobs
SUFFIXES = sorted({*IMAGE_SUFFIXES, *TABLE_SUFFIXES, *VIDEO_SUFFIXES})
AMBIGUOUS_SUFFIXES = (".npy",)  # tables or images: the person at the page chooses
REMOVED = "This job was removed; send the file again."


def build_app(
    limit: int = UPLOAD_LIMIT, shutting_down: Callable[[], bool] = lambda: False
) -> Starlette:
    """Return the web application; its jobs end when it shuts down.

    Parameters
    ----------
    limit : int
        Largest accepted file, in bytes.
    shutting_down : callable
        Returns whether the server is about to stop, which ends open event streams.
    """
    jobs = Jobs()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(jobs.close)

    app = Starlette(
        routes=[
            Route("/", send_page),
            Mount("/static", StaticFiles(packages=[("discrepant.server", "static")])),
            Route("/jobs", add_job, methods=["POST"]),
            Route("/jobs", list_jobs),
            Route("/events", send_events),
            Route("/jobs/{key}", remove_job, methods=["DELETE"]),
            Route("/jobs/{key}/cancel", cancel_job, methods=["POST"]),
            Route("/jobs/{key}/again", restore_again, methods=["POST"]),
            Route("/jobs/{key}/rejected", reject_flags, methods=["POST"]),
            Route("/jobs/{key}/files/{name}", send_file),
        ],
        exception_handlers={
            HTTPException: _send_error,
            InputError: _send_error,
            FileNotFoundError: _send_removed,
        },
        lifespan=lifespan,
    )
    app.state.jobs = jobs
    app.state.limit = limit
    app.state.shutting_down = shutting_down
    return app


async def send_page(request: Request) -> Response:
    """Send the page itself."""
    template = files("discrepant.server") / "templates" / "index.html"
    page = template.read_text(encoding="utf-8")
    for placeholder, value in {
        "{{limit}}": str(request.app.state.limit),
        "{{suffixes}}": ",".join(SUFFIXES),
        "{{version}}": __version__,
    }.items():
        page = page.replace(placeholder, value)
    return HTMLResponse(page)


async def list_jobs(request: Request) -> Response:
    """Send the state of all jobs."""
    return JSONResponse(list(_snapshots(request).values()))


async def add_job(request: Request) -> Response:
    """Receive a file and append a job to the queue."""
    jobs: Jobs = request.app.state.jobs
    name = request.query_params.get("name", "")[-NAME_LENGTH:] or "file"
    suffix = Path(name.replace("\\", "/")).suffix.lower()
    kind = _job_kind(suffix, request.query_params.get("kind", ""))
    path = jobs.new_folder() / f"upload{suffix}"
    await _receive_file(request, path, request.app.state.limit)
    fast = request.query_params.get("quality") == "fast"
    job = jobs.add(kind, Upload(name, path), _job_task(kind, fast))
    return JSONResponse(_snapshot(jobs, job), 201)


async def send_events(request: Request) -> Response:
    """Send the state of each job whenever it changes, as server-sent events.

    One stream serves all jobs: a browser opens at most six connections to a server, so
    with a stream per job the seventh would leave none for cancelling.
    """

    async def events() -> AsyncIterator[str]:
        sent: dict[str, Any] = {}
        while True:
            last_round = request.app.state.shutting_down()
            snapshots = _snapshots(request)
            for key, snapshot in snapshots.items():
                if snapshot != sent.get(key):
                    yield f"data: {json.dumps(snapshot, allow_nan=False)}\n\n"
            for key in sent.keys() - snapshots.keys():
                yield f"event: removed\ndata: {key}\n\n"
            sent = snapshots
            if last_round:
                return
            await asyncio.sleep(EVENT_INTERVAL)

    return StreamingResponse(events(), media_type="text/event-stream")


async def cancel_job(request: Request) -> Response:
    """Ask a job to stop."""
    jobs, job = request.app.state.jobs, _find_job(request)
    jobs.cancel(job)
    return JSONResponse(_snapshot(jobs, job))


async def remove_job(request: Request) -> Response:
    """Remove a job and delete its files."""
    request.app.state.jobs.remove(_find_job(request))
    return Response(status_code=204)


async def restore_again(request: Request) -> Response:
    """Restore an image again, with the pixels that were painted as known bad."""
    jobs, previous = request.app.state.jobs, _find_job(request)
    if previous.kind != "image":
        raise HTTPException(409, "Only images can be painted on.")
    folder = jobs.new_folder()
    path = folder / f"upload{previous.upload.suffix}"
    painted = folder / "painted.png"
    await _receive_file(request, painted, EXTRA_LIMIT)
    try:
        path.write_bytes(previous.upload.path.read_bytes())
    except FileNotFoundError:
        raise HTTPException(404, REMOVED) from None
    fast = request.query_params.get("quality") == "fast"
    task = _job_task("image", fast, painted)
    job = jobs.add("image", Upload(previous.upload.name, path), task)
    return JSONResponse(_snapshot(jobs, job), 201)


async def reject_flags(request: Request) -> Response:
    """Write the results of a table again, without the rejected flags."""
    job = _find_job(request)
    if job.kind != "table" or job.result is None:
        raise HTTPException(409, "This job has no flags that can be rejected.")
    try:
        rejected = json.loads(await _receive_bytes(request, EXTRA_LIMIT))
    except ValueError:
        rejected = None
    if not isinstance(rejected, list):
        raise HTTPException(400, "The rejected flags must be a list of numbers.")
    update = partial(without_flags, rejected=rejected)
    await anyio.to_thread.run_sync(job.update_result, update)
    return JSONResponse({"rejected": len(rejected)})


async def send_file(request: Request) -> Response:
    """Send a file of a job; only files that the job lists can be fetched."""
    job = _find_job(request)
    path = job.file(request.path_params["name"])
    if path is None:
        raise HTTPException(404, "There is no such file.")
    # `stat` fails if the job, and with it the file, was removed just now.
    response = FileResponse(
        path, filename=request.query_params.get("as"), stat_result=path.stat()
    )
    if job.kind == "video" and job.state == "done":
        return response  # it does not change, and players request ranges of it
    # Other files may be replaced while they are sent, so read them at once.
    content = await anyio.to_thread.run_sync(path.read_bytes)
    names = ("content-type", "content-disposition")
    headers = {k: v for k, v in response.headers.items() if k in names}
    return Response(content, headers=headers)


def _find_job(request: Request) -> Job:
    jobs: Jobs = request.app.state.jobs
    try:
        return jobs[request.path_params["key"]]
    except KeyError:
        raise HTTPException(404, REMOVED) from None


def _snapshot(jobs: Jobs, job: Job) -> dict[str, Any]:
    return job.snapshot(jobs.count_ahead(job))


def _snapshots(request: Request) -> dict[str, dict[str, Any]]:
    jobs: Jobs = request.app.state.jobs
    return {job.key: _snapshot(jobs, job) for job in jobs.all()}


def _job_kind(suffix: str, requested: str) -> str:
    """Return the kind of job for a file: "image", "table" or "video"."""
    if suffix in AMBIGUOUS_SUFFIXES:
        return requested if requested in ("image", "table") else "table"
    if suffix in IMAGE_SUFFIXES:
        return "image"
    if suffix in TABLE_SUFFIXES:
        return "table"
    if suffix in VIDEO_SUFFIXES:
        pyav()  # raises before the upload if PyAV is not installed
        return "video"
    raise HTTPException(
        415, f"This file type is not supported. Supported: {', '.join(SUFFIXES)}."
    )


def _job_task(kind: str, fast: bool, painted: Path | None = None) -> Task:
    """Return the function that processes a kind of file."""
    if kind == "image":
        return partial(restore_upload, fast=fast, painted=painted)
    if kind == "video":
        return separate_upload
    return lambda upload, folder, report, show: clean_upload(upload, folder, report)


async def _receive_file(request: Request, path: Path, limit: int) -> None:
    """Write the body of a request to a file; delete it if that fails."""
    try:
        with path.open("wb") as file:
            async for part in _body_parts(request, limit):
                await anyio.to_thread.run_sync(file.write, part)
        if not path.stat().st_size:
            raise HTTPException(400, "The file is empty.")
    except BaseException:
        path.unlink(missing_ok=True)
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
        raise


async def _receive_bytes(request: Request, limit: int) -> bytes:
    return b"".join([part async for part in _body_parts(request, limit)])


async def _body_parts(request: Request, limit: int) -> AsyncIterator[bytes]:
    """Yield the body of a request; refuse it as soon as it exceeds the limit."""
    too_large = HTTPException(
        413, f"The file is larger than {limit / 2**20:.0f} MB, the limit of this page."
    )
    declared = request.headers.get("content-length", "0")
    if not declared.isdigit() or int(declared) > limit:
        raise too_large
    received = 0
    try:
        async for part in request.stream():
            received += len(part)
            if received > limit:
                raise too_large
            yield part
    except ClientDisconnect:
        raise HTTPException(400, "The upload was interrupted.") from None


async def _send_error(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code)
    return JSONResponse({"error": str(error)}, 400)


async def _send_removed(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": REMOVED}, 404)
