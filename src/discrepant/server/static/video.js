// A video: previews while it is processed, then players and the activity over time.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 600; // of the activity curve, in SVG units
const HEIGHT = 90;

export function showVideo(container, job) {
  if (!container.querySelector(".live")) container.replaceChildren(document.getElementById("video").content.cloneNode(true));
  const part = (name) => container.querySelector(`.${name}`);
  const address = (name) => `/jobs/${job.key}/files/${name}`;
  if (!job.result) {
    for (const [name, file] of Object.entries(job.previews)) part(name).src = `${address(file)}?version=${job.preview_version}`;
    return;
  }
  if (!part("finished").hidden) return;
  part("live").hidden = true;
  part("finished").hidden = false;
  const player = part("side-by-side");
  const masks = part("masks");
  player.onplay = () => masks.play();
  player.onpause = () => masks.pause();
  player.onseeked = () => { masks.currentTime = player.currentTime; };
  player.onratechange = () => { masks.playbackRate = player.playbackRate; };
  load(job.key, [[player, "side-by-side.mp4"], [masks, "mask.mp4"]], part("unplayed"));
  part("last-background").src = address("background.png");
  if (job.result.size[0] < 320) part("finished").classList.add("small");
  drawActivity(part("activity"), job.result, player);
}

// Load the videos into the players; a browser that does not play H.264 says so.
function load(key, players, notice) {
  const cannotPlay = () => {
    notice.textContent = "This browser cannot play the videos; download them instead.";
    notice.hidden = false;
  };
  for (const [player, name] of players) {
    player.onerror = cannotPlay;
    player.src = `/jobs/${key}/files/${name}`;
  }
}

// Draw the fraction of each frame that is foreground; a click moves the player there.
function drawActivity(figure, result, player) {
  const highest = Math.max(...result.activity.map(([, fraction]) => fraction));
  const length = result.length || 1;
  const toPoint = ([seconds, fraction]) => [(seconds / length) * WIDTH, HEIGHT - (fraction / (highest || 1)) * (HEIGHT - 4)];
  const element = (tag, attributes) => {
    const created = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) created.setAttribute(name, value);
    return created;
  };
  const points = result.activity.map((point) => toPoint(point).map((x) => x.toFixed(1)).join(",")).join(" ");
  const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  const description = `Foreground over ${length.toFixed(1)} seconds: at most ${(100 * highest).toFixed(1)}% of a frame.`;
  svg.setAttribute("aria-label", description);
  const position = element("line", { class: "position", x1: 0, x2: 0, y1: 0, y2: HEIGHT });
  svg.append(element("polygon", { points: `0,${HEIGHT} ${points} ${WIDTH},${HEIGHT}` }), element("polyline", { points }), position);
  svg.onclick = (event) => {
    const box = svg.getBoundingClientRect();
    player.currentTime = ((event.clientX - box.left) / box.width) * length;
  };
  player.ontimeupdate = () => {
    const x = Math.min(player.currentTime / length, 1) * WIDTH;
    position.setAttribute("x1", x);
    position.setAttribute("x2", x);
  };
  figure.querySelector("figcaption").textContent = `${description} Click to move the video to that time.`;
  figure.prepend(svg);
}
