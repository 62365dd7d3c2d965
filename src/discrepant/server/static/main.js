// Upload files, and show the state of every job as the server reports it.
import { showImage } from "/static/image.js";
import { showTable } from "/static/table.js";
import { showVideo } from "/static/video.js";

const $ = (id) => document.getElementById(id);
const LIMIT = Number(document.body.dataset.limit);
const LOST = "The server does not respond. If it was stopped, run discrepant serve again and open the address that it prints.";
const ENDED = ["done", "failed", "cancelled"];
const cards = new Map(); // key of a job → its element on the page

// The cookie replaces the token: remove it from the address and the history.
history.replaceState(null, "", "/");

export function showAlert(message) {
  $("alert").textContent = message;
  $("alert").hidden = !message;
}

function showConnection(lost) {
  $("lost").textContent = lost ? LOST : "";
  $("lost").hidden = !lost;
}

// Send a request and return the response as JSON; a failure throws an Error to display.
export async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error(LOST);
  }
  if (response.ok) return response.status === 204 ? null : response.json();
  const text = await response.text();
  let message = text;
  try { message = JSON.parse(text).error ?? text; } catch { /* plain text */ }
  throw new Error(message);
}

// Return the result of an action, or display its error and return undefined.
export async function attempt(action) {
  try {
    showAlert("");
    return await action();
  } catch (error) {
    showAlert(error.message);
    return undefined;
  }
}

// Upload the files one after the other. A refused file does not stop the others.
async function send(files) {
  const refused = [];
  showAlert("");
  for (const file of files) {
    $("sending").textContent = `Sending ${file.name} …`;
    try {
      if (file.size > LIMIT) {
        throw new Error(`${file.name} has ${Math.ceil(file.size / 2 ** 20)} MB; the limit of this page is ${Math.floor(LIMIT / 2 ** 20)} MB. The command line has no limit.`);
      }
      const query = new URLSearchParams({ name: file.name, quality: $("quality").value, kind: $("array").value });
      follow(await request(`/jobs?${query}`, { method: "POST", body: file }));
    } catch ({ message }) {
      refused.push(message === LOST || message.includes(file.name) ? message : `${file.name}: ${message}`);
      showAlert(refused.join("\n"));
      if (message === LOST) break;
    }
  }
  $("sending").textContent = "";
}

// Add a new job to the page and scroll to it.
export function follow(job) {
  const card = cards.get(job.key) ?? addCard(job);
  card.querySelector("h2").scrollIntoView({ block: "nearest" });
}

function addCard(job) {
  const card = $("job").content.firstElementChild.cloneNode(true);
  const part = (name) => card.querySelector(name);
  cards.set(job.key, card);
  part("h2").textContent = job.name;
  part("h2").id = `job-${job.key}`;
  card.setAttribute("aria-labelledby", part("h2").id);
  part("progress").setAttribute("aria-label", `Progress of ${job.name}`);
  part(".cancel").setAttribute("aria-label", `Cancel ${job.name}`);
  part(".remove").setAttribute("aria-label", `Remove ${job.name}`);
  $("jobs").prepend(card);
  part(".cancel").onclick = async () => {
    part(".cancel").disabled = true;
    await attempt(() => request(`/jobs/${job.key}/cancel`, { method: "POST" }));
    part(".cancel").disabled = false;
  };
  part(".remove").onclick = () => attempt(async () => {
    await request(`/jobs/${job.key}`, { method: "DELETE" });
    removeCard(job.key);
    $("files").focus();
  });
  return card;
}

function removeCard(key) {
  cards.get(key)?.remove();
  cards.delete(key);
}

// One event stream reports all jobs, those of other tabs too, because a browser opens
// at most six connections to a server.
function listen() {
  const events = new EventSource("/events");
  events.onopen = () => showConnection(false);
  events.onerror = () => showConnection(true);
  events.onmessage = (event) => {
    const job = JSON.parse(event.data);
    show(cards.get(job.key) ?? addCard(job), job);
  };
  events.addEventListener("removed", (event) => removeCard(event.data));
}

function show(card, job) {
  const ended = ENDED.includes(job.state);
  card.classList.toggle("failed", job.state === "failed");
  card.querySelector(".cancel").hidden = ended;
  card.querySelector(".remove").hidden = !ended;
  const bar = card.querySelector("progress");
  bar.hidden = job.state !== "working";
  bar.value = job.progress;
  const state = card.querySelector(".state");
  // Screen readers announce the beginning and the end, not every step between.
  state.setAttribute("aria-live", job.state === "working" ? "off" : "polite");
  const text = {
    waiting: job.jobs_ahead ? `Waiting for ${job.jobs_ahead} other ${job.jobs_ahead === 1 ? "file" : "files"}.` : "Waiting.",
    working: job.cancelling ? "Cancelling…" : `${Math.round(100 * job.progress)}%${job.note ? `, ${job.note}` : ""}`,
    done: job.result ? `${job.result.headline} (${job.result.seconds} s)` : "",
    failed: job.error,
    cancelled: "Cancelled.",
  }[job.state];
  if (state.textContent !== text) state.textContent = text;
  const container = card.querySelector(".result");
  const images = job.result?.images ?? job.previews;
  if (job.state === "cancelled" || job.state === "failed") container.replaceChildren();
  else if (job.kind === "image" && images.before) showImage(container, job, images);
  else if (job.kind === "table" && job.result) showTable(container, job);
  else if (job.kind === "video" && (job.result || job.preview_version)) showVideo(container, job);
  if (job.result) showEnd(container, job);
}

// Add the notes, the downloads and the equivalent code below a result.
function showEnd(container, job) {
  if (container.querySelector(".downloads")) return;
  const end = $("end").content.cloneNode(true);
  const notes = end.querySelector(".notes");
  for (const text of job.result.notes) {
    const item = document.createElement("li");
    item.textContent = text;
    notes.append(item);
  }
  notes.hidden = !job.result.notes.length;
  const downloads = end.querySelector(".downloads");
  for (const { file, as } of job.result.downloads) {
    const link = document.createElement("a");
    link.href = `/jobs/${job.key}/files/${file}?as=${encodeURIComponent(as)}`;
    link.download = as;
    link.textContent = as;
    downloads.append(link);
  }
  end.querySelector(".python").textContent = job.result.python;
  end.querySelector(".command").textContent = job.result.command;
  container.append(end);
}

$("files").onchange = (event) => {
  send([...event.target.files]);
  event.target.value = "";
};
for (const kind of ["dragover", "dragleave", "drop"]) {
  addEventListener(kind, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dragging", kind === "dragover");
    if (kind === "drop") drop(event.dataTransfer);
  });
}

function drop(dropped) {
  const folder = [...dropped.items].map((item) => item.webkitGetAsEntry?.()).find((entry) => entry?.isDirectory);
  if (folder) showAlert(`${folder.name} is a folder. Drop the files in it instead, or use the command line: discrepant restore ${folder.name} -o restored`);
  else send([...dropped.files]);
}

listen();
