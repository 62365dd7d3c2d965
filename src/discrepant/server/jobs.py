"""One job after another, each in a folder of its own; any can be cancelled."""

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
from discrepant.server.job_result import Outcome, Show, Upload

KEPT = 20  # jobs; of more, the oldest that ended go
Task = Callable[[Upload, Path, Report, Show], Outcome]


@dataclass(eq=False)
class Job:
    """One file on its way; what the page may know of it is its `snapshot`."""

    key: str
    kind: str
    upload: Upload
    folder: Path
    task: Task = field(repr=False)
    state: str = "waiting"  # then "working", and "done", "failed" or "cancelled"
    share: float = 0.0
    note: str = ""
    shown: dict[str, str] = field(default_factory=dict)
    looks: int = 0  # how often what is shown was new
    outcome: Outcome | None = None
    reason: str = ""
    cancelled: threading.Event = field(default_factory=threading.Event)
    lock: Any = field(default_factory=threading.Lock, repr=False)  # of the outcome

    @property
    def ended(self) -> bool:
        """Whether nothing will happen to it any more."""
        return self.state in ("done", "failed", "cancelled")

    def snapshot(self, ahead: int) -> dict[str, Any]:
        """Return what the page is told; ``ahead`` jobs come before this one."""
        facts = self.outcome.facts if self.state == "done" and self.outcome else None
        return {
            "key": self.key,
            "kind": self.kind,
            "name": self.upload.name,
            "state": self.state,
            "share": round(self.share, 3),
            "note": self.note,
            "shown": dict(self.shown),
            "looks": self.looks,
            "ahead": ahead,
            "cancelling": self.cancelled.is_set() and not self.ended,
            "reason": self.reason,
            "facts": facts,
        }

    def run(self) -> None:
        """Do the work; whatever goes wrong is a sentence for the page."""
        if self.cancelled.is_set():
            self.state = "cancelled"
            return
        self.state = "working"
        try:
            self.outcome = self.task(self.upload, self.folder, self._told, self._show)
        except InputError as error:
            # The name here is of no use to who sent the file.
            self.reason = str(error).replace(str(self.upload.path), self.upload.name)
            self.reason = self.reason.replace(self.upload.path.name, self.upload.name)
        except StoppedError:
            self.cancelled.set()
        except MemoryError:
            self.reason = "There is not enough memory for it."
        except Exception as error:  # one file must not end the page
            first = str(error).split("\n")[0]
            self.reason = f"An unforeseen {type(error).__name__} ended it: {first}"
        if self.cancelled.is_set():
            self.state, self.outcome = "cancelled", None
        else:
            self.state = "failed" if self.reason else "done"

    def file(self, name: str) -> Path | None:
        """Return a file of the job by its name in the address, if there is one."""
        if self.outcome is not None and name in self.outcome.files:
            return self.outcome.files[name]
        # The work may end before a picture of it is asked for.
        return self.folder / name if name in self.shown.values() else None

    def change(self, changed: Callable[[Outcome], Outcome]) -> None:
        """Put another outcome in the place of the present one, one at a time."""
        with self.lock:
            if self.outcome is not None:
                self.outcome = changed(self.outcome)

    def _told(self, share: float, note: str) -> bool:
        self.share, self.note = share, note
        return not self.cancelled.is_set()

    def _show(self, pictures: dict[str, str]) -> None:
        self.shown = {**self.shown, **pictures}
        self.looks += 1


class Jobs:
    """The queue: one thread works, all others ask."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="discrepant-page-"))
        self._all: dict[str, Job] = {}
        self._waiting: queue.Queue[Job | None] = queue.Queue()
        self._lock = threading.Lock()
        self._deaf = add_listener(self._hear)
        self._worker = threading.Thread(target=self._work, daemon=True)
        self._worker.start()

    def __getitem__(self, key: str) -> Job:
        return self._all[key]

    def all(self) -> list[Job]:
        """Return the jobs, oldest first."""
        with self._lock:
            return list(self._all.values())

    def room(self) -> Path:
        """Return an empty folder whose name, the key of a job, nobody can guess."""
        folder = self.folder / secrets.token_urlsafe(12)
        folder.mkdir()
        return folder

    def add(self, kind: str, upload: Upload, task: Task) -> Job:
        """Put a job at the end of the queue; its upload lies in its folder."""
        folder = upload.path.parent
        job = Job(folder.name, kind, upload, folder, task)
        with self._lock:
            self._all[job.key] = job
            ended = [other for other in self._all.values() if other.ended]
            for other in ended[: max(len(self._all) - KEPT, 0)]:
                self._remove(other)
        self._waiting.put(job)
        return job

    def ahead(self, job: Job) -> int:
        """Return how many jobs come before one that waits."""
        if job.state != "waiting":
            return 0
        earlier = takewhile(lambda other: other is not job, self.all())
        return sum(not other.ended for other in earlier)

    def cancel(self, job: Job) -> None:
        """Ask a job to end; one that waits ends at once."""
        job.cancelled.set()
        if job.state == "waiting":
            job.state = "cancelled"

    def remove(self, job: Job) -> None:
        """Forget a job and its files."""
        self.cancel(job)
        with self._lock:
            self._remove(job)

    def close(self) -> None:
        """End all work and leave nothing behind."""
        for job in self.all():
            self.cancel(job)
        self._waiting.put(None)
        self._deaf()
        self._worker.join(timeout=5)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _hear(self, sentence: str) -> None:
        """Pass on what takes long, such as compiling."""
        for job in self.all():
            if job.state == "working":
                job.note = sentence

    def _remove(self, job: Job) -> None:
        self._all.pop(job.key, None)
        shutil.rmtree(job.folder, ignore_errors=True)

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            if not job.ended:
                job.run()
            if job.key not in self._all:  # removed while it worked
                shutil.rmtree(job.folder, ignore_errors=True)
