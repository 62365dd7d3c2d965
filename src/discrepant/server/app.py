"""The page's addresses: what is sent to it, and what it sends back."""

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
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from discrepant import __version__
from discrepant.core.errors import InputError
from discrepant.image.files.formats import FORMATS as PICTURES
from discrepant.server.image_job import heal_picture
from discrepant.server.job_result import Upload
from discrepant.server.jobs import Job, Jobs, Task
from discrepant.server.table_job import heal_table, reject
from discrepant.server.video_job import as_webm, heal_video
from discrepant.table.io.table_file import FORMATS as TABLES
from discrepant.video.io.video_file import VIDEOS, pyav

LIMIT = 512 * 2**20  # bytes of an upload
SMALL = 64 * 2**20  # bytes of what was painted or chosen
NAME = 200  # characters of a file's name that are shown
PAUSE = 0.15  # seconds between looks at the jobs
STATIC = {
    "style.css": "text/css",
    "main.js": "text/javascript",
    "picture.js": "text/javascript",
    "table.js": "text/javascript",
    "video.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
ENDINGS = sorted({*PICTURES, *TABLES, *VIDEOS})
BOTH = (".npy",)  # an array may be a table or a picture: the page asks


class RefusedError(Exception):
    """A request that cannot be served, with its status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def build(limit: int = LIMIT, over: Callable[[], bool] = lambda: False) -> Starlette:
    """Return the application; its jobs end with it.

    Parameters
    ----------
    limit : int
        Bytes of the largest file that is taken.
    over : callable
        Asked whether the server is about to end, so that nobody is kept on the line.
    """
    jobs = Jobs()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(jobs.close)

    site = Site(jobs, limit, over)
    app = Starlette(
        routes=[
            Route("/", site.page),
            Route("/static/{name}", site.static),
            Route("/jobs", site.add, methods=["POST"]),
            Route("/jobs", site.all),
            Route("/events", site.events),
            Route("/jobs/{key}", site.remove, methods=["DELETE"]),
            Route("/jobs/{key}/cancel", site.cancel, methods=["POST"]),
            Route("/jobs/{key}/again", site.again, methods=["POST"]),
            Route("/jobs/{key}/choices", site.choices, methods=["POST"]),
            Route("/jobs/{key}/webm/{name}", site.webm, methods=["POST"]),
            Route("/jobs/{key}/files/{name}", site.file),
        ],
        exception_handlers={
            RefusedError: _refusal,
            InputError: _refusal,
            FileNotFoundError: _removed,
        },
        lifespan=lifespan,
    )
    app.state.jobs = jobs
    return app


class Site:
    """What each address does."""

    def __init__(self, jobs: Jobs, limit: int, over: Callable[[], bool]) -> None:
        self.jobs, self.limit, self.over = jobs, limit, over

    async def page(self, request: Request) -> Response:
        """Send the page itself."""
        text = _asset("index.html").read_text(encoding="utf-8")
        for mark, value in {
            "{{limit}}": str(self.limit),
            "{{endings}}": ",".join(ENDINGS),
            "{{version}}": __version__,
        }.items():
            text = text.replace(mark, value)
        return HTMLResponse(text)

    async def static(self, request: Request) -> Response:
        """Send a part of the page."""
        name = request.path_params["name"]
        if name not in STATIC:
            raise RefusedError(404, "There is no such part of the page.")
        return Response(_asset(name).read_bytes(), media_type=STATIC[name])

    async def all(self, request: Request) -> Response:
        """List the jobs."""
        return JSONResponse([self._told(job) for job in self.jobs.all()])

    async def add(self, request: Request) -> Response:
        """Take a file and put it into the queue."""
        name = request.query_params.get("name", "")[-NAME:] or "file"
        suffix = Path(name.replace("\\", "/")).suffix.lower()
        kind = _kind(suffix, request.query_params.get("kind", ""))
        folder = self.jobs.room()
        path = folder / f"upload{suffix}"
        await _receive(request, path, self.limit)
        fast = request.query_params.get("quality") == "fast"
        job = self.jobs.add(kind, Upload(name, path), _task(kind, fast))
        return JSONResponse(self._told(job), 201)

    async def events(self, request: Request) -> Response:
        """Tell of all jobs as they change, as server-sent events.

        One stream for all of them: browsers hold six connections to an address, and a
        seventh job would leave none to cancel the first with.
        """

        async def told() -> AsyncIterator[str]:
            last: dict[str, Any] = {}
            while True:
                over = self.over()
                now = {job.key: self._told(job) for job in self.jobs.all()}
                for key, news in now.items():
                    if news != last.get(key):
                        yield f"data: {json.dumps(news, allow_nan=False)}\n\n"
                for key in last.keys() - now.keys():
                    yield f"event: gone\ndata: {key}\n\n"
                last = now
                if over:
                    return
                await asyncio.sleep(PAUSE)

        return StreamingResponse(told(), media_type="text/event-stream")

    async def cancel(self, request: Request) -> Response:
        """Ask a job to end."""
        job = self._job(request)
        self.jobs.cancel(job)
        return JSONResponse(self._told(job))

    async def remove(self, request: Request) -> Response:
        """Forget a job and its files."""
        self.jobs.remove(self._job(request))
        return Response(status_code=204)

    async def again(self, request: Request) -> Response:
        """Restore a picture again, with what was painted as known to be bad."""
        before = self._job(request)
        if before.kind != "picture":
            raise RefusedError(409, "Only pictures can be painted on.")
        folder = self.jobs.room()
        path = folder / f"upload{before.upload.suffix}"
        await _receive(request, folder / "painted.png", SMALL)
        try:
            path.write_bytes(before.upload.path.read_bytes())
        except FileNotFoundError:
            raise RefusedError(404, _GONE) from None
        fast = request.query_params.get("quality") == "fast"
        task = _task("picture", fast, folder / "painted.png")
        job = self.jobs.add("picture", Upload(before.upload.name, path), task)
        return JSONResponse(self._told(job), 201)

    async def choices(self, request: Request) -> Response:
        """Write a table again, without the flags that were rejected."""
        job = self._job(request)
        if job.kind != "table" or job.outcome is None:
            raise RefusedError(409, "There are no flags to choose from.")
        try:
            rejected = json.loads(await _body(request, SMALL))
        except ValueError:
            raise RefusedError(400, "The choices cannot be read.") from None
        if not isinstance(rejected, list):
            raise RefusedError(400, "The choices cannot be read.")
        chosen = partial(reject, rejected=rejected)
        await anyio.to_thread.run_sync(job.change, chosen)
        return JSONResponse({"rejected": len(rejected)})

    async def webm(self, request: Request) -> Response:
        """Make a WebM of a video, for a browser that does not play MP4."""
        job, name = self._job(request), request.path_params["name"]
        made = job.outcome.files if job.kind == "video" and job.outcome else {}
        if job.outcome is None or not name.endswith(".mp4") or name not in made:
            raise RefusedError(404, "There is no such video.")
        file = await anyio.to_thread.run_sync(partial(as_webm, job.outcome, name))
        return JSONResponse({"file": file})

    async def file(self, request: Request) -> Response:
        """Send a file that a job made; which ones there are it knows itself."""
        job = self._job(request)
        path = job.file(request.path_params["name"])
        if path is None:
            raise RefusedError(404, "There is no such file.")
        # A job may be removed at any moment, and its files with it.
        answer = FileResponse(
            path, filename=request.query_params.get("as"), stat_result=path.stat()
        )
        if job.kind == "video" and job.state == "done":
            return answer  # it will not change, and players ask for parts of it
        # What may be replaced while it is sent is read at once.
        content = await anyio.to_thread.run_sync(path.read_bytes)
        headers = {k: v for k, v in answer.headers.items() if k in _KEPT_HEADERS}
        return Response(content, headers=headers)

    def _job(self, request: Request) -> Job:
        try:
            return self.jobs[request.path_params["key"]]
        except KeyError:
            raise RefusedError(404, _GONE) from None

    def _told(self, job: Job) -> dict[str, Any]:
        return job.snapshot(self.jobs.ahead(job))


_KEPT_HEADERS = ("content-type", "content-disposition")
_GONE = "This job is no longer there; send the file again."


def _kind(suffix: str, asked: str) -> str:
    """Return what a file is taken for."""
    if suffix in BOTH:
        return asked if asked in ("picture", "table") else "table"
    if suffix in PICTURES:
        return "picture"
    if suffix in TABLES:
        return "table"
    if suffix in VIDEOS:
        pyav()  # said before the file is sent, if it is missing
        return "video"
    endings = ", ".join(ENDINGS)
    raise RefusedError(415, f"Files with this ending are not known; known: {endings}.")


def _task(kind: str, fast: bool, painted: Path | None = None) -> Task:
    """Return the work that a kind of file asks for."""
    if kind == "picture":
        return partial(heal_picture, fast=fast, marks=painted)
    if kind == "video":
        return heal_video
    return lambda upload, folder, report, show: heal_table(upload, folder, report)


async def _receive(request: Request, path: Path, limit: int) -> None:
    """Write what is sent to a file; nothing stays of what is too large or broken."""
    try:
        with path.open("wb") as file:
            async for part in _parts(request, limit):
                await anyio.to_thread.run_sync(file.write, part)
        if not path.stat().st_size:
            raise RefusedError(400, "The file is empty.")
    except BaseException:
        path.unlink(missing_ok=True)
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
        raise


async def _body(request: Request, limit: int) -> bytes:
    return b"".join([part async for part in _parts(request, limit)])


async def _parts(request: Request, limit: int) -> AsyncIterator[bytes]:
    """Yield what is sent, and refuse it as soon as it is known to be too much."""
    too_large = RefusedError(
        413, f"The file is larger than {limit / 2**20:.0f} MB, the limit of this page."
    )
    said = request.headers.get("content-length", "0")
    if not said.isdigit() or int(said) > limit:
        raise too_large
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise too_large
            yield part
    except ClientDisconnect:
        raise RefusedError(400, "The file did not arrive in whole.") from None


def _asset(name: str) -> Any:
    return files("discrepant.server") / "static" / name


async def _refusal(request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, RefusedError) else 400
    return JSONResponse({"reason": str(error)}, status)


async def _removed(request: Request, error: Exception) -> Response:
    return JSONResponse({"reason": _GONE}, 404)
