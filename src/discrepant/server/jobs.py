"""The queue of uploaded files: one job at a time, each in its own folder."""

import queue
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from discrepant.core.errors import InputError
from discrepant.core.progress import Report, StoppedError, add_listener

MAX_JOBS = 20  # jobs on the page; beyond it, the oldest finished ones are removed

# Called with files to show while a job runs: name of the image on the page → file name
ShowPreviews = Callable[[dict[str, str]], None]


@dataclass(frozen=True)
class Upload:
    """A file sent by the browser: its name there, and its path here.

    The name is only displayed; it is never part of a path.
    """

    name: str
    path: Path

    @property
    def stem(self) -> str:
        """The name without its suffix, for a command or a download."""
        return Path(self.name).stem or "file"

    @property
    def suffix(self) -> str:
        """The suffix, in lower case."""
        return self.path.suffix


@dataclass(frozen=True, eq=False)
class JobResult:
    """The result of a finished job.

    Attributes
    ----------
    page_data : dict
        What the page displays; can be written as JSON.
    files : dict of str to Path
        Files that the browser may fetch, by the last part of their address.
    state : object
        What later requests about this job need; it stays in the server.
    """

    page_data: dict[str, Any]
    files: dict[str, Path]
    state: Any = field(default=None, repr=False)


Task = Callable[[Upload, Path, Report, ShowPreviews], JobResult]


@dataclass(eq=False)
class Job:
    """One uploaded file and the state of its processing."""

    key: str
    kind: str  # "image", "table" or "video"
    upload: Upload
    folder: Path
    task: Task = field(repr=False)
    state: str = "waiting"  # then "working", then "done", "failed" or "cancelled"
    progress: float = 0.0  # fraction of the work that is done
    note: str = ""
    previews: dict[str, str] = field(default_factory=dict)
    preview_version: int = 0  # increases whenever a preview changes
    result: JobResult | None = None
    error: str = ""
    cancelled: threading.Event = field(default_factory=threading.Event)
    result_lock: Any = field(default_factory=threading.Lock, repr=False)

    @property
    def ended(self) -> bool:
        """Whether the job is done, failed or cancelled."""
        return self.state in ("done", "failed", "cancelled")

    def snapshot(self, jobs_ahead: int) -> dict[str, Any]:
        """Return the state of the job as the page receives it."""
        done = self.state == "done" and self.result is not None
        return {
            "key": self.key,
            "kind": self.kind,
            "name": self.upload.name,
            "state": self.state,
            "progress": round(self.progress, 3),
            "note": self.note,
            "previews": dict(self.previews),
            "preview_version": self.preview_version,
            "jobs_ahead": jobs_ahead,
            "cancelling": self.cancelled.is_set() and not self.ended,
            "error": self.error,
            "result": self.result.page_data if done and self.result else None,
        }

    def run(self) -> None:
        """Process the upload; any error becomes a message for the page."""
        if self.cancelled.is_set():
            self.state = "cancelled"
            return
        self.state = "working"
        try:
            self.result = self.task(
                self.upload, self.folder, self._report, self._show_previews
            )
        except InputError as error:
            # The person at the page knows the file by the name that was uploaded.
            message = str(error).replace(str(self.upload.path), self.upload.name)
            self.error = message.replace(self.upload.path.name, self.upload.name)
        except StoppedError:
            self.cancelled.set()
        except MemoryError:
            self.error = "There is not enough memory for this file."
        except Exception as error:  # a failed job must not end the server
            first_line = str(error).split("\n")[0]
            self.error = f"Unexpected {type(error).__name__}: {first_line}"
        if self.cancelled.is_set():
            self.state, self.result = "cancelled", None
        else:
            self.state = "failed" if self.error else "done"

    def file(self, name: str) -> Path | None:
        """Return the path of a file that the browser may fetch, or None."""
        if self.result is not None and name in self.result.files:
            return self.result.files[name]
        # A preview may be requested after the job has ended.
        return self.folder / name if name in self.previews.values() else None

    def update_result(self, update: Callable[[JobResult], JobResult]) -> None:
        """Replace the result by ``update(result)``, one update at a time."""
        with self.result_lock:
            if self.result is not None:
                self.result = update(self.result)

    def _report(self, fraction: float, note: str) -> bool:
        self.progress, self.note = fraction, note
        return not self.cancelled.is_set()

    def _show_previews(self, files: dict[str, str]) -> None:
        self.previews = {**self.previews, **files}
        self.preview_version += 1


class Jobs:
    """All jobs of the server; one thread runs them in the order of their upload."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="discrepant-page-"))
        self._all: dict[str, Job] = {}
        self._waiting: queue.Queue[Job | None] = queue.Queue()
        self._lock = threading.Lock()
        self._stop_listening = add_listener(self._on_announcement)
        self._worker = threading.Thread(target=self._work, daemon=True)
        self._worker.start()

    def __getitem__(self, key: str) -> Job:
        return self._all[key]

    def all(self) -> list[Job]:
        """Return the jobs, oldest first."""
        with self._lock:
            return list(self._all.values())

    def new_folder(self) -> Path:
        """Create a folder for a job; its name, the job's key, cannot be guessed."""
        folder = self.folder / secrets.token_urlsafe(12)
        folder.mkdir()
        return folder

    def add(self, kind: str, upload: Upload, task: Task) -> Job:
        """Append a job to the queue; its upload is in the job's folder."""
        folder = upload.path.parent
        job = Job(folder.name, kind, upload, folder, task)
        with self._lock:
            self._all[job.key] = job
            ended = [other for other in self._all.values() if other.ended]
            for other in ended[: max(len(self._all) - MAX_JOBS, 0)]:
                self._remove(other)
        self._waiting.put(job)
        return job

    def count_ahead(self, job: Job) -> int:
        """Return the number of unfinished jobs before one that waits."""
        if job.state != "waiting":
            return 0
        earlier = takewhile(lambda other: other is not job, self.all())
        return sum(not other.ended for other in earlier)

    def cancel(self, job: Job) -> None:
        """Ask a running job to stop; a waiting one ends immediately."""
        job.cancelled.set()
        if job.state == "waiting":
            job.state = "cancelled"

    def remove(self, job: Job) -> None:
        """Cancel a job and delete its files."""
        self.cancel(job)
        with self._lock:
            self._remove(job)

    def close(self) -> None:
        """Cancel all jobs and delete all files."""
        for job in self.all():
            self.cancel(job)
        self._waiting.put(None)
        self._stop_listening()
        self._worker.join(timeout=5)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _on_announcement(self, message: str) -> None:
        """Show a message such as "Compiling …" at the running job."""
        for job in self.all():
            if job.state == "working":
                job.note = message

    def _remove(self, job: Job) -> None:
        self._all.pop(job.key, None)
        shutil.rmtree(job.folder, ignore_errors=True)

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            if not job.ended:
                job.run()
            if job.key not in self._all:  # removed while it ran
                shutil.rmtree(job.folder, ignore_errors=True)
