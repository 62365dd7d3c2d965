// The flagged cells of a table: a map, a list to sort, and a choice for each.
import { ask, attempt } from "/static/main.js";

const PAGE = 200; // lines shown at a time
const SORTED = { value: 0, expected: 1, probability: 2 };

export function showTable(place, job) {
  const facts = job.facts;
  if (place.chosen) {
    place.chosen(facts);
    return;
  }
  place.replaceChildren(document.getElementById("table").content.cloneNode(true));
  const part = (name) => place.querySelector(name);
  const map = part(".map");
  map.hidden = !facts.map || !facts.flagged.length;
  // Drawn by the server, in which every label is escaped.
  const drawMap = (drawn) => {
    map.querySelector("svg")?.remove();
    map.insertAdjacentHTML("afterbegin", drawn);
  };
  drawMap(facts.map);
  for (const name of [".wide", ".more"]) part(name).hidden = !facts.flagged.length;
  place.chosen = () => {};
  if (!facts.flagged.length) return;

  const rejected = new Set(facts.rejected);
  let order = [...facts.flagged];
  let count = PAGE;

  const line = (flag) => {
    const row = document.createElement("tr");
    row.classList.toggle("rejected", rejected.has(flag.place));
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = !rejected.has(flag.place);
    box.setAttribute("aria-label", `Keep the flag of row ${flag.row}, column ${flag.column}`);
    box.onchange = () => {
      if (box.checked) rejected.delete(flag.place); else rejected.add(flag.place);
      row.classList.toggle("rejected", !box.checked);
      save();
    };
    const first = document.createElement("td");
    first.append(box);
    row.append(first);
    const [value, expected] = flag.sort;
    const side = value === null || expected === null ? "" : value > expected ? "high" : "low";
    for (const [text, kind] of [[flag.row, ""], [flag.column, ""], [flag.value, `n ${side}`], [flag.expected, "n"], [flag.between, "n"], [flag.probability, "n"]]) {
      const cell = document.createElement("td");
      cell.textContent = text;
      cell.className = kind;
      row.append(cell);
    }
    return row;
  };
  const draw = () => {
    part("tbody").replaceChildren(...order.slice(0, count).map(line));
    part(".show-more").hidden = count >= order.length;
    const unlisted = facts.unlisted ? ` ${facts.unlisted} more stand in the file of flags.` : "";
    part("caption").textContent = `${Math.min(count, order.length)} of ${order.length} flagged cells.${unlisted}`;
  };
  for (const button of place.querySelectorAll("thead button")) {
    button.onclick = () => {
      const head = button.closest("th");
      const down = head.getAttribute("aria-sort") !== "descending";
      for (const other of place.querySelectorAll("th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const by = button.dataset.by;
      const where = { row: 0, column: 1 }[by];
      const of = (flag) => (by in SORTED ? flag.sort[SORTED[by]] ?? -Infinity : flag.at[where]);
      order.sort((a, b) => (down ? of(b) - of(a) : of(a) - of(b)) || a.place - b.place);
      draw();
    };
  }
  // One request at a time, and the last choice wins.
  let waiting = null;
  let saving = false;
  const tally = () => {
    const left = facts.flagged.length + facts.unlisted - rejected.size;
    part(".chosen").textContent = `${left} accepted, ${rejected.size} rejected: all downloads are written so.`;
  };
  const save = () => {
    clearTimeout(waiting);
    part(".chosen").textContent = "Writing…";
    waiting = setTimeout(async () => {
      if (saving) return save();
      [waiting, saving] = [null, true];
      const body = JSON.stringify([...rejected]);
      const written = await attempt(async () => await ask(`/jobs/${job.key}/choices`, { method: "POST", body }));
      saving = false;
      if (!written) part(".chosen").textContent = "This choice was not written.";
      else if (!waiting) tally();
    }, 250);
  };
  // What was chosen in another tab; a choice of this one that is on its way comes first.
  place.chosen = (told) => {
    drawMap(told.map);
    const same = told.rejected.length === rejected.size && told.rejected.every((number) => rejected.has(number));
    if (waiting || saving || same) return;
    rejected.clear();
    for (const number of told.rejected) rejected.add(number);
    draw();
    tally();
  };
  part(".show-more").onclick = () => { count += PAGE; draw(); };
  part(".all").onclick = () => { rejected.clear(); draw(); save(); };
  part(".none").onclick = () => { for (const flag of facts.flagged) rejected.add(flag.place); draw(); save(); };
  draw();
  if (rejected.size) tally();
}
