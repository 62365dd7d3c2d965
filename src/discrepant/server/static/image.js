// An image before and after, its mask, and a brush to paint over missed defects.
import { attempt, follow, request } from "/static/main.js";

export function showImage(container, job, images) {
  const address = (name) => `/jobs/${job.key}/files/${name}?version=${job.state}${job.preview_version}`;
  if (!container.querySelector(".stage")) build(container, job);
  const part = (name) => container.querySelector(`.${name}`);
  for (const name of ["before", "after", "mask", "suggestions", "painted"]) {
    const image = part(name);
    if (!images[name]) continue;
    if (image.getAttribute("src") !== address(images[name])) image.src = address(images[name]);
  }
  const finished = job.state === "done";
  part("divider").hidden = !images.after;
  part("slide").hidden = !images.after;
  part("after").hidden = !images.after;
  part("tools").hidden = !finished;
  part("suggested").hidden = !images.suggestions;
  part("add-suggestions").hidden = !images.suggestions;
}

function build(container, job) {
  container.replaceChildren(document.getElementById("image").content.cloneNode(true));
  const part = (name) => container.querySelector(`.${name}`);
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
    if (starting && !canvas.ready) enablePainting(canvas, part("before"), part("brush"), part("cursor"), part("painted"));
    if (starting) canvas.focus();
  };
  part("add-suggestions").onclick = () => {
    const canvas = part("paint");
    canvas.getContext("2d").drawImage(part("suggestions"), 0, 0, canvas.width, canvas.height);
  };
  part("clear").onclick = () => {
    const canvas = part("paint");
    canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
  };
  part("again").onclick = () => attempt(async () => {
    const body = await new Promise((resolve) => part("paint").toBlob(resolve, "image/png"));
    const quality = document.getElementById("quality").value;
    follow(await request(`/jobs/${job.key}/again?quality=${quality}`, { method: "POST", body }));
  });
}

// Let the user paint in image pixels, by pointer or keyboard, on top of earlier paint.
function enablePainting(canvas, image, size, cursor, earlier) {
  canvas.ready = true;
  canvas.width = image.naturalWidth;
  canvas.height = image.naturalHeight;
  const pen = canvas.getContext("2d");
  pen.strokeStyle = pen.fillStyle = "#e0a030";
  pen.lineCap = pen.lineJoin = "round";
  if (earlier.getAttribute("src")) pen.drawImage(earlier, 0, 0, canvas.width, canvas.height);
  let last = null;
  const pixelAt = (event) => {
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
    last = pixelAt(event);
    stroke(last, last);
  };
  canvas.onpointermove = (event) => {
    if (!last) return;
    const here = pixelAt(event);
    stroke(last, here);
    last = here;
  };
  canvas.onpointerup = canvas.onpointercancel = () => { last = null; };
  let position = [canvas.width / 2, canvas.height / 2];
  let down = false;
  const moveCursor = () => {
    cursor.style.left = `${(100 * position[0]) / canvas.width}%`;
    cursor.style.top = `${(100 * position[1]) / canvas.height}%`;
    cursor.style.width = `${(100 * Number(size.value)) / canvas.width}%`;
  };
  moveCursor();
  size.addEventListener("input", moveCursor);
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.onkeydown = (event) => {
    const step = steps[event.key];
    if (!step && event.key !== " ") return;
    event.preventDefault();
    if (event.key === " ") down = true;
    const distance = event.shiftKey ? 1 : Math.max(Number(size.value) / 2, 1);
    const next = step ? [position[0] + distance * step[0], position[1] + distance * step[1]] : position;
    next[0] = Math.min(Math.max(next[0], 0), canvas.width);
    next[1] = Math.min(Math.max(next[1], 0), canvas.height);
    if (down) stroke(position, next);
    position = next;
    moveCursor();
  };
  canvas.onkeyup = (event) => { if (event.key === " ") down = false; };
}
