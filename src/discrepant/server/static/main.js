// Files in, jobs on the page: what the server tells of each is shown as it comes.
import { showPicture } from "/static/picture.js";
import { showTable } from "/static/table.js";
import { showVideo } from "/static/video.js";

const $ = (id) => document.getElementById(id);
const LIMIT = Number(document.body.dataset.limit);
const LOST = "The server does not answer. If it was ended, start discrepant serve again and open the address that it prints.";
const ENDED = ["done", "failed", "cancelled"];
const cards = new Map(); // key of a job → its card

// The token has done its work: it need not stand in the address, nor in the history.
history.replaceState(null, "", "/");

export function say(sentence) {
  $("alert").textContent = sentence;
  $("alert").hidden = !sentence;
}

function lose(lost) {
  $("lost").textContent = lost ? LOST : "";
  $("lost").hidden = !lost;
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

// One file after the other; what is refused is said of each, and the others go on.
async function send(files) {
  const refused = [];
  say("");
  for (const file of files) {
    $("sending").textContent = `Sending ${file.name} …`;
    try {
      if (file.size > LIMIT) {
        throw new Error(`${file.name} has ${Math.ceil(file.size / 2 ** 20)} MB; this page takes ${Math.floor(LIMIT / 2 ** 20)} MB at most. On the command line there is no limit.`);
      }
      const asked = new URLSearchParams({ name: file.name, quality: $("quality").value, kind: $("array").value });
      follow(await ask(`/jobs?${asked}`, { method: "POST", body: file }), true);
    } catch ({ message }) {
      refused.push(message === LOST || message.includes(file.name) ? message : `${file.name}: ${message}`);
      say(refused.join("\n"));
      if (message === LOST) break;
    }
  }
  $("sending").textContent = "";
}

export function follow(job, first = false) {
  const card = cards.get(job.key) ?? open(job);
  if (first) card.querySelector("h2").scrollIntoView({ block: "nearest" });
}

function open(job) {
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
    await attempt(() => ask(`/jobs/${job.key}/cancel`, { method: "POST" }));
    part(".cancel").disabled = false;
  };
  part(".remove").onclick = () => attempt(async () => {
    await ask(`/jobs/${job.key}`, { method: "DELETE" });
    close(job.key);
    $("files").focus();
  });
  return card;
}

function close(key) {
  cards.get(key)?.remove();
  cards.delete(key);
}

// One stream tells of all jobs, those of other tabs too: a browser holds only six
// connections to an address.
function listen() {
  const events = new EventSource("/events");
  events.onopen = () => lose(false);
  events.onerror = () => lose(true);
  events.onmessage = (event) => {
    const job = JSON.parse(event.data);
    show(cards.get(job.key) ?? open(job), job);
  };
  events.addEventListener("gone", (event) => close(event.data));
}

function show(card, job) {
  const ended = ENDED.includes(job.state);
  card.classList.toggle("failed", job.state === "failed");
  card.querySelector(".cancel").hidden = ended;
  card.querySelector(".remove").hidden = !ended;
  const bar = card.querySelector("progress");
  bar.hidden = job.state !== "working";
  bar.value = job.share;
  const state = card.querySelector(".state");
  // A screen reader hears of the beginning and the end; the bar says what is between.
  state.setAttribute("aria-live", job.state === "working" ? "off" : "polite");
  const said = {
    waiting: job.ahead ? `Waiting: ${job.ahead} before this one.` : "Waiting.",
    working: job.cancelling ? "Cancelling…" : `${Math.round(100 * job.share)}%${job.note ? `, ${job.note}` : ""}`,
    done: job.facts ? `${job.facts.headline} (${job.facts.seconds} s)` : "",
    failed: job.reason,
    cancelled: "Cancelled.",
  }[job.state];
  if (state.textContent !== said) state.textContent = said;
  const place = card.querySelector(".result");
  const pictures = job.facts?.pictures ?? job.shown;
  if (job.state === "cancelled" || job.state === "failed") place.replaceChildren();
  else if (job.kind === "picture" && pictures.before) showPicture(place, job, pictures);
  else if (job.kind === "table" && job.facts) showTable(place, job);
  else if (job.kind === "video" && (job.facts || job.looks)) showVideo(place, job);
  if (job.facts) end(place, job);
}

function end(place, job) {
  if (place.querySelector(".downloads")) return;
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
    if (kind === "drop") drop(event.dataTransfer);
  });
}

function drop(dropped) {
  const folder = [...dropped.items].map((item) => item.webkitGetAsEntry?.()).find((entry) => entry?.isDirectory);
  if (folder) say(`${folder.name} is a folder; drop the files in it, or on the command line: discrepant restore ${folder.name} -o restored.`);
  else send([...dropped.files]);
}

listen();
