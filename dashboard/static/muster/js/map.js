// The fleet map as one tab stop: arrows move to the nearest node that way, Enter opens it (it is a link), Home and End
// go to the first and the last. The strip below the map tells the focused or hovered node.

const COS = 0.35;
let told = "";

function cells(map) {
  return [...map.querySelectorAll("a.n, a.r")];
}

function centre(cell) {
  const box = (cell.querySelector(".h, .bx") || cell).getBoundingClientRect();
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
}

function nearest(from, all, dx, dy) {
  const here = centre(from);
  let best = null, least = Infinity;
  for (const cell of all) {
    if (cell === from) continue;
    const there = centre(cell), x = there.x - here.x, y = there.y - here.y;
    const along = x * dx + y * dy, far = Math.hypot(x, y);
    if (along <= 0 || along / far < COS) continue;
    const cost = far + Math.abs(x * dy - y * dx) / 2;
    if (cost < least) [best, least] = [cell, cost];
  }
  return best;
}

function rove(map, cell) {
  for (const other of map.querySelectorAll('a[tabindex="0"]')) if (other !== cell) other.setAttribute("tabindex", "-1");
  cell.setAttribute("tabindex", "0");
}

function tell(cell) {
  const peek = document.querySelector("[data-peek]");
  const words = cell.getAttribute("aria-label");
  if (!peek || !words) return;
  const [, name, rest] = words.match(/^([^,]+), (.*)$/s) || [null, words, ""];
  const kind = ["ok", "warn", "bad", "unk", "lost"].find((known) => cell.classList.contains(known));
  const mark = peek.querySelector(".mk");
  told = cell.getAttribute("href");
  mark.setAttribute("class", `mk ${kind || "unk"}`);
  mark.querySelector("use").setAttribute("href", `#m-${kind || "unk"}`);
  const link = peek.querySelector("a.name");
  link.textContent = name;
  const cut = rest.indexOf(": ");
  peek.querySelector("[data-peek-state]").textContent = cut < 0 ? rest : rest.slice(0, cut);
  peek.querySelector("[data-peek-why]").textContent = cut < 0 ? "" : rest.slice(cut + 2);
  for (const to of peek.querySelectorAll("a")) to.setAttribute("href", cell.getAttribute("href"));
  for (const part of peek.querySelectorAll("[hidden]")) part.removeAttribute("hidden");
  peek.querySelector("[data-peek-hint]")?.setAttribute("hidden", "");
}

function move(map, key, from) {
  const all = cells(map);
  if (key === "Home") return all[0];
  if (key === "End") return all[all.length - 1];
  const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  return way ? nearest(from, all, ...way) : undefined;
}

document.addEventListener("keydown", (event) => {
  const from = event.target.closest?.("[data-map] a.n, [data-map] a.r");
  if (!from || event.altKey || event.ctrlKey || event.metaKey) return;
  const map = from.closest("[data-map]");
  const to = move(map, event.key, from);
  if (to === undefined) return;
  event.preventDefault();
  if (!to) return;
  rove(map, to);
  to.focus();
});
document.addEventListener("focusin", (event) => {
  const cell = event.target.closest?.("[data-map] a.n, [data-map] a.r");
  if (!cell) return;
  rove(cell.closest("[data-map]"), cell);
  tell(cell);
});
document.addEventListener("mouseover", (event) => {
  const cell = event.target.closest?.("[data-map] a.n, [data-map] a.r");
  if (cell) tell(cell);
});
document.addEventListener("muster:swapped", (event) => {
  for (const map of event.target.querySelectorAll("[data-map]")) {
    const first = map.querySelector('a[tabindex="0"]') || cells(map)[0];
    if (first) rove(map, first);
    const again = cells(map).find((cell) => cell.getAttribute("href") === (told || document.querySelector("[data-peek] a.name")?.getAttribute("href")));
    if (again) tell(again);
  }
});
