// Files in, jobs on the page: what the server tells of each is shown as it comes.
import { showPicture } from "/static/picture.js";
import { showTable } from "/static/table.js";
import { showVideo } from "/static/video.js";

const $ = (id) => document.getElementById(id);
const LIMIT = Number(document.body.dataset.limit);
const LOST = "The server does not answer. If it was ended, start discrepant serve again and open the address that it prints.";
const shown = new Map(); // key → what follows a job

// The token has done its work: it need not stand in the address, nor in the history.
history.replaceState(null, "", "/");

export function say(sentence) {
  $("alert").textContent = sentence;
  $("alert").hidden = !sentence;
}

// Ask the server; a refusal or a lost server becomes a sentence.
export async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error(LOST);
  }
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const told = await answer.text();
  let reason = told;
  try { reason = JSON.parse(told).reason ?? told; } catch { /* it is plain text */ }
  throw new Error(reason);
}

export async function attempt(work) {
  try {
    say("");
    return await work();
  } catch (error) {
    say(error.message);
    return undefined;
  }
}

async function send(files) {
  for (const file of files) {
    if (file.size > LIMIT) {
      say(`${file.name} has ${Math.ceil(file.size / 2 ** 20)} MB; this page takes ${Math.floor(LIMIT / 2 ** 20)} MB at most. On the command line there is no limit.`);
      continue;
    }
    const asked = new URLSearchParams({ name: file.name, quality: $("quality").value, kind: $("array").value });
    const job = await attempt(() => ask(`/jobs?${asked}`, { method: "POST", body: file }));
    if (job) follow(job, true);
  }
}

export function follow(job, first = false) {
  if (shown.has(job.key)) return;
  const card = $("job").content.firstElementChild.cloneNode(true);
  card.dataset.key = job.key;
  card.querySelector("h2").textContent = job.name;
  $("jobs").prepend(card);
  if (first) card.querySelector("h2").scrollIntoView({ block: "nearest" });
  card.querySelector(".cancel").onclick = () => attempt(() => ask(`/jobs/${job.key}/cancel`, { method: "POST" }));
  card.querySelector(".remove").onclick = () => attempt(async () => {
    await ask(`/jobs/${job.key}`, { method: "DELETE" });
    shown.delete(job.key);
    card.remove();
    $("files").focus();
  });
  const events = new EventSource(`/jobs/${job.key}/events`);
  shown.set(job.key, events);
  events.onmessage = (event) => {
    say("");
    const told = JSON.parse(event.data);
    if (["done", "failed", "cancelled"].includes(told.state)) events.close();
    show(card, told);
  };
  events.onerror = () => say(LOST);
}

function show(card, job) {
  const ended = ["done", "failed", "cancelled"].includes(job.state);
  card.classList.toggle("failed", job.state === "failed");
  card.querySelector(".cancel").hidden = ended;
  card.querySelector(".remove").hidden = !ended;
  const bar = card.querySelector("progress");
  bar.hidden = ended;
  bar.value = job.share;
  card.querySelector(".state").textContent = {
    waiting: job.ahead ? `Waiting: ${job.ahead} before this one.` : "Waiting.",
    working: `${Math.round(100 * job.share)}%${job.note ? `, ${job.note}` : ""}`,
    done: job.facts ? `${job.facts.headline} (${job.facts.seconds} s)` : "",
    failed: job.reason,
    cancelled: "Cancelled.",
  }[job.state];
  const place = card.querySelector(".result");
  const pictures = job.facts?.pictures ?? job.shown;
  if (job.state === "cancelled" || job.state === "failed") place.replaceChildren();
  else if (job.kind === "picture" && pictures.before) showPicture(place, job, pictures);
  else if (job.kind === "table" && job.facts) showTable(place, job);
  else if (job.kind === "video" && (job.facts || job.looks)) showVideo(place, job);
  if (job.facts) end(place, job);
}

function end(place, job) {
  const part = $("end").content.cloneNode(true);
  const caveats = part.querySelector(".caveats");
  for (const text of job.facts.caveats) {
    const item = document.createElement("li");
    item.textContent = text;
    caveats.append(item);
  }
  caveats.hidden = !job.facts.caveats.length;
  const list = part.querySelector(".downloads");
  for (const { file, as } of job.facts.downloads) {
    const link = document.createElement("a");
    link.href = `/jobs/${job.key}/files/${file}?as=${encodeURIComponent(as)}`;
    link.download = as;
    link.textContent = as;
    list.append(link);
  }
  part.querySelector(".python").textContent = job.facts.python;
  part.querySelector(".command").textContent = job.facts.command;
  place.append(part);
}

$("files").onchange = (event) => {
  send([...event.target.files]);
  event.target.value = "";
};
for (const kind of ["dragover", "dragleave", "drop"]) {
  addEventListener(kind, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dragging", kind === "dragover");
    if (kind === "drop") send([...event.dataTransfer.files]);
  });
}
attempt(async () => (await ask("/jobs")).forEach((job) => follow(job)));
