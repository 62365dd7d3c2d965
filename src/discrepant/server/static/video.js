// A video on its way frame by frame, then side by side with its background, and how much moved when.
import { ask } from "/static/main.js";

const MP4 = 'video/mp4; codecs="avc1.64001f"';
const SVG = "http://www.w3.org/2000/svg";
const WIDE = 600;
const HIGH = 90;

export function showVideo(place, job) {
  if (!place.querySelector(".now")) place.replaceChildren(document.getElementById("video").content.cloneNode(true));
  const part = (name) => place.querySelector(`.${name}`);
  const address = (name) => `/jobs/${job.key}/files/${name}`;
  if (!job.facts) {
    for (const [name, file] of Object.entries(job.shown)) part(name).src = `${address(file)}?at=${job.looks}`;
    return;
  }
  if (!part("told").hidden) return;
  part("now").hidden = true;
  part("told").hidden = false;
  const player = part("beside");
  const masks = part("masks");
  player.onplay = () => masks.play();
  player.onpause = () => masks.pause();
  player.onseeked = () => { masks.currentTime = player.currentTime; };
  player.onratechange = () => { masks.playbackRate = player.playbackRate; };
  load(job.key, [[player, "side-by-side.mp4"], [masks, "mask.mp4"]], part("unplayed"));
  part("behind").src = address("background.png");
  if (job.facts.size[0] < 320) part("told").classList.add("small");
  drawActivity(part("activity"), job.facts, player);
}

// Give the players their videos. Where the browser does not play H.264, the server is
// asked to make a WebM of each.
function load(key, players, notice) {
  const say = (sentence) => {
    notice.textContent = sentence;
    notice.hidden = !sentence;
  };
  const other = async () => {
    say("This browser does not play MP4: a WebM is being made for it.");
    try {
      for (const [player, name] of players) {
        const { file } = await ask(`/jobs/${key}/webm/${name}`, { method: "POST" });
        player.onerror = () => say("This browser cannot play the videos; they can be downloaded.");
        player.src = `/jobs/${key}/files/${file}`;
      }
      say("");
    } catch (error) {
      say(`This browser cannot play the videos; they can be downloaded. (${error.message})`);
    }
  };
  if (!players[0][0].canPlayType(MP4)) {
    other();
    return;
  }
  players[0][0].onerror = other;
  for (const [player, name] of players) player.src = `/jobs/${key}/files/${name}`;
}

// The share of the picture that is in front, over time; a click goes there.
function drawActivity(figure, facts, player) {
  const most = Math.max(...facts.activity.map(([, share]) => share));
  const length = facts.length || 1;
  const at = ([seconds, share]) => [(seconds / length) * WIDE, HIGH - (share / (most || 1)) * (HIGH - 4)];
  const draw = (kind, given) => {
    const drawn = document.createElementNS(SVG, kind);
    for (const [name, value] of Object.entries(given)) drawn.setAttribute(name, value);
    return drawn;
  };
  const points = facts.activity.map((point) => at(point).map((x) => x.toFixed(1)).join(",")).join(" ");
  const svg = draw("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img" });
  const words = `Up to ${(100 * most).toFixed(1)}% of the picture is in front, over ${length.toFixed(1)} seconds.`;
  svg.setAttribute("aria-label", words);
  const here = draw("line", { class: "here", x1: 0, x2: 0, y1: 0, y2: HIGH });
  svg.append(draw("polygon", { points: `0,${HIGH} ${points} ${WIDE},${HIGH}` }), draw("polyline", { points }), here);
  svg.onclick = (event) => {
    const box = svg.getBoundingClientRect();
    player.currentTime = ((event.clientX - box.left) / box.width) * length;
  };
  player.ontimeupdate = () => {
    const x = Math.min(player.currentTime / length, 1) * WIDE;
    here.setAttribute("x1", x);
    here.setAttribute("x2", x);
  };
  figure.querySelector("figcaption").textContent = `${words} Click to go there.`;
  figure.prepend(svg);
}
