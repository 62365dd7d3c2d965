// The flagged cells of a table: a map, and a sortable list in which flags are rejected.
import { attempt, request } from "/static/main.js";

const PAGE = 200; // rows of the list that are added at a time
const NUMBERS = { value: 0, expected: 1, probability: 2 }; // positions in `flag.sort`

export function showTable(container, job) {
  const result = job.result;
  if (container.drawMap) {
    container.drawMap(result.map);
    return;
  }
  container.replaceChildren(document.getElementById("table").content.cloneNode(true));
  const part = (name) => container.querySelector(name);
  const map = part(".map");
  map.hidden = !result.map || !result.flagged.length;
  // The server draws the map and escapes every label.
  container.drawMap = (image) => {
    map.querySelector("img")?.remove();
    map.insertAdjacentHTML("afterbegin", image);
  };
  container.drawMap(result.map);
  for (const name of [".wide", ".more"]) part(name).hidden = !result.flagged.length;
  if (!result.flagged.length) return;

  const rejected = new Set(result.rejected);
  let order = [...result.flagged];
  let count = PAGE;

  const tableRow = (flag) => {
    const row = document.createElement("tr");
    row.classList.toggle("rejected", rejected.has(flag.position));
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = !rejected.has(flag.position);
    box.setAttribute("aria-label", `Replace row ${flag.row}, column ${flag.column}`);
    box.onchange = () => {
      if (box.checked) rejected.delete(flag.position); else rejected.add(flag.position);
      row.classList.toggle("rejected", !box.checked);
      save();
    };
    const first = document.createElement("td");
    first.append(box);
    row.append(first);
    const [value, expected] = flag.sort;
    const side = value === null || expected === null ? "" : value > expected ? "high" : "low";
    for (const [text, className] of [[flag.row, ""], [flag.column, ""], [flag.value, `n ${side}`], [flag.expected, "n"], [flag.interval, "n"], [flag.probability, "n"]]) {
      const cell = document.createElement("td");
      cell.textContent = text;
      cell.className = className;
      row.append(cell);
    }
    return row;
  };
  const draw = () => {
    part("tbody").replaceChildren(...order.slice(0, count).map(tableRow));
    part(".show-more").hidden = count >= order.length;
    const unlisted = result.unlisted ? ` ${result.unlisted} more are in the downloaded list.` : "";
    part("caption").textContent = `${Math.min(count, order.length)} of ${order.length} flagged cells.${unlisted}`;
  };
  for (const button of container.querySelectorAll("thead button")) {
    button.onclick = () => {
      const head = button.closest("th");
      const descending = head.getAttribute("aria-sort") !== "descending";
      for (const other of container.querySelectorAll("th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const by = button.dataset.by;
      const axis = { row: 0, column: 1 }[by];
      const key = (flag) => (by in NUMBERS ? flag.sort[NUMBERS[by]] ?? -Infinity : flag.cell[axis]);
      order.sort((a, b) => (descending ? key(b) - key(a) : key(a) - key(b)) || a.position - b.position);
      draw();
    };
  }
  // One request at a time; the last choice is the one that is written.
  let waiting = null;
  let saving = false;
  const showCounts = () => {
    const accepted = result.flagged.length + result.unlisted - rejected.size;
    part(".saved").textContent = `${accepted} replaced, ${rejected.size} rejected. The downloads are up to date.`;
  };
  const save = () => {
    clearTimeout(waiting);
    part(".saved").textContent = "Saving…";
    waiting = setTimeout(async () => {
      if (saving) return save();
      [waiting, saving] = [null, true];
      const body = JSON.stringify([...rejected]);
      const written = await attempt(() => request(`/jobs/${job.key}/rejected`, { method: "POST", body }));
      saving = false;
      if (!written) part(".saved").textContent = "The choice was not saved.";
      else if (!waiting) showCounts();
    }, 250);
  };
  part(".show-more").onclick = () => { count += PAGE; draw(); };
  part(".accept-all").onclick = () => { rejected.clear(); draw(); save(); };
  part(".reject-all").onclick = () => { for (const flag of result.flagged) rejected.add(flag.position); draw(); save(); };
  draw();
  if (rejected.size) showCounts();
}
