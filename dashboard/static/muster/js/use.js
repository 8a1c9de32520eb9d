// Draws how busy a node's GPUs were into the cells `td[data-spark]` of rows `tr[data-key]`. The server is asked once the
// table stands, for all rows at once, and again for what is older than five minutes; a table that was read anew gets its
// lines back at once.

const FRESH_MS = 300000;
const AT_ONCE = 100;
const known = new Map();
let asking = false;

function rows() {
  return [...document.querySelectorAll("[data-use] tr[data-key]")];
}

function draw(row) {
  const cell = row.querySelector("td[data-spark]"), found = known.get(row.dataset.key);
  if (!cell || !found || cell.dataset.spark === String(found.at)) return;
  cell.dataset.spark = String(found.at);
  if (!found.line) {
    cell.replaceChildren();
    return;
  }
  const parsed = document.createElement("template");
  parsed.innerHTML = '<svg class="spark" viewBox="0 0 100 20" preserveAspectRatio="none" role="img"><path/></svg> <span class="nb"></span>';
  parsed.content.querySelector("svg").setAttribute("aria-label", found.said);
  parsed.content.querySelector("path").setAttribute("d", found.line);
  parsed.content.querySelector("span").textContent = found.now;
  cell.title = found.said;
  cell.replaceChildren(parsed.content);
}

async function look() {
  const now = Date.now();
  for (const row of rows()) draw(row);
  const stale = rows().map((row) => row.dataset.key).filter((key) => !(now - known.get(key)?.at < FRESH_MS)).slice(0, AT_ONCE);
  if (!stale.length || asking || document.hidden) return;
  asking = true;
  try {
    const query = new URLSearchParams(stale.map((key) => ["n", key]));
    const answer = await fetch(`${document.querySelector("[data-use]").dataset.use}?${query}`, { redirect: "manual" });
    if (!answer.ok) return;
    const told = await answer.json();
    for (const key of stale) known.set(key, { at: now, ...told[key] });
    for (const row of rows()) draw(row);
  } catch {
    // The connection mark says it; the next look tries again.
  } finally {
    asking = false;
  }
}

if (document.querySelector("[data-use]")) {
  look();
  document.addEventListener("muster:swapped", () => { look(); });
  setInterval(look, FRESH_MS / 10);
}
