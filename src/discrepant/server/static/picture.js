// A picture before and after, what was judged wrong in it, and a brush for what was not.
import { ask, attempt, follow } from "/static/main.js";

export function showPicture(place, job, pictures) {
  const address = (name) => `/jobs/${job.key}/files/${name}?at=${job.state}${job.looks}`;
  if (!place.querySelector(".stage")) build(place, job);
  const part = (name) => place.querySelector(`.${name}`);
  for (const name of ["before", "after", "mask", "suggestions", "marks"]) {
    const image = part(name);
    if (!pictures[name]) continue;
    if (image.getAttribute("src") !== address(pictures[name])) image.src = address(pictures[name]);
  }
  const finished = job.state === "done";
  part("divider").hidden = !pictures.after;
  part("slide").hidden = !pictures.after;
  part("after").hidden = !pictures.after;
  part("tools").hidden = !finished;
  part("suggested").hidden = !pictures.suggestions;
  part("take").hidden = !pictures.suggestions;
}

function build(place, job) {
  place.replaceChildren(document.getElementById("picture").content.cloneNode(true));
  const part = (name) => place.querySelector(`.${name}`);
  const layers = part("layers");
  const slide = () => layers.style.setProperty("--cut", `${part("slider").value}%`);
  part("slider").oninput = slide;
  slide();
  const drag = (event) => {
    if (!event.buttons || !part("paint").hidden) return;
    event.preventDefault();
    const box = layers.getBoundingClientRect();
    part("slider").value = (100 * (event.clientX - box.left)) / box.width;
    slide();
  };
  layers.onpointerdown = (event) => {
    if (part("paint").hidden) layers.setPointerCapture(event.pointerId);
    drag(event);
  };
  layers.onpointermove = drag;
  part("show-mask").onchange = (event) => { part("mask").hidden = !event.target.checked; };
  part("show-suggestions").onchange = (event) => { part("suggestions").hidden = !event.target.checked; };
  part("start-paint").onclick = () => {
    const canvas = part("paint");
    const starting = canvas.hidden;
    canvas.hidden = !starting;
    part("painting").hidden = !starting;
    layers.classList.toggle("marking", starting);
    part("start-paint").setAttribute("aria-expanded", starting);
    if (starting && !canvas.ready) brush(canvas, part("before"), part("brush"), part("spot"), part("marks"));
    if (starting) canvas.focus();
  };
  part("take").onclick = () => {
    const canvas = part("paint");
    canvas.getContext("2d").drawImage(part("suggestions"), 0, 0, canvas.width, canvas.height);
  };
  part("wipe").onclick = () => {
    const canvas = part("paint");
    canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
  };
  part("again").onclick = () => attempt(async () => {
    const drawn = await new Promise((done) => part("paint").toBlob(done, "image/png"));
    const quality = document.getElementById("quality").value;
    follow(await ask(`/jobs/${job.key}/again?quality=${quality}`, { method: "POST", body: drawn }), true);
  });
}

// Paint in the picture's own pixels, by pointer or by keys, on top of earlier marks.
function brush(canvas, image, size, mark, earlier) {
  canvas.ready = true;
  canvas.width = image.naturalWidth;
  canvas.height = image.naturalHeight;
  const pen = canvas.getContext("2d");
  pen.strokeStyle = pen.fillStyle = "#e0a030";
  pen.lineCap = pen.lineJoin = "round";
  if (earlier.getAttribute("src")) pen.drawImage(earlier, 0, 0, canvas.width, canvas.height);
  let last = null;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * canvas.width, ((event.clientY - box.top) / box.height) * canvas.height];
  };
  const stroke = (from, to) => {
    pen.lineWidth = Number(size.value);
    pen.beginPath();
    pen.moveTo(...from);
    pen.lineTo(to[0] + 0.01, to[1]);
    pen.stroke();
  };
  canvas.onpointerdown = (event) => {
    canvas.setPointerCapture(event.pointerId);
    last = at(event);
    stroke(last, last);
  };
  canvas.onpointermove = (event) => {
    if (!last) return;
    const here = at(event);
    stroke(last, here);
    last = here;
  };
  canvas.onpointerup = canvas.onpointercancel = () => { last = null; };
  let spot = [canvas.width / 2, canvas.height / 2];
  let down = false;
  const point = () => {
    mark.style.left = `${(100 * spot[0]) / canvas.width}%`;
    mark.style.top = `${(100 * spot[1]) / canvas.height}%`;
    mark.style.width = `${(100 * Number(size.value)) / canvas.width}%`;
  };
  point();
  size.addEventListener("input", point);
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.onkeydown = (event) => {
    const step = steps[event.key];
    if (!step && event.key !== " ") return;
    event.preventDefault();
    if (event.key === " ") down = true;
    const far = event.shiftKey ? 1 : Math.max(Number(size.value) / 2, 1);
    const next = step ? [spot[0] + far * step[0], spot[1] + far * step[1]] : spot;
    next[0] = Math.min(Math.max(next[0], 0), canvas.width);
    next[1] = Math.min(Math.max(next[1], 0), canvas.height);
    if (down) stroke(spot, next);
    spot = next;
    point();
  };
  canvas.onkeyup = (event) => { if (event.key === " ") down = false; };
}
