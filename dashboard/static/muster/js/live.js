// Keeps the page true: hears hints, fetches the fragments that care, shows whether the stream is there.
//
//   <div data-live="workflow:12 node:gpu-r01-01" data-src="/workflows/12/?part=steps">   changes in place
//   <div data-live="incident" data-live-mode="ask" data-src="...">                       only "3 changes, show"
//   <div data-live="node" data-live-mode="rows" data-src="...">      rows (tr[data-key]) change in place, but none comes,
//                                                                    goes or moves before "3 changes, show" is pressed
//     <button class="fresh" data-fresh hidden data-one="1 change, show" data-many="%n changes, show">
//
//   <div data-live="..." data-live-now data-src="...">                                   read once the page stands
//
// A topic without `:ref` cares for every ref. `node:NAME` matches any hint that names the node. The button may stand
// anywhere in the fragment's `.card`.

import { toast } from "./frame.js";
import { Stream } from "./stream.js";
import { patchRows, swap } from "./swap.js";

const SPACING_MS = 400;
const POLL_MS = 10000;
const word = document.querySelector("[data-connection]");
const state = { up: false, deaf: false, since: Date.now(), lost: 0 };
const waiting = new Map();

function fragments() {
  return [...document.querySelectorAll("[data-live][data-src]")];
}

function cares(element, hint) {
  return element.dataset.live.split(/\s+/).some((want) => {
    const cut = want.indexOf(":");
    if (cut < 0) return want === "*" || want === hint.topic;
    const topic = want.slice(0, cut), ref = want.slice(cut + 1);
    return (topic === hint.topic && ref === String(hint.ref)) || (topic === "node" && hint.node !== "" && ref === hint.node);
  });
}

async function read(element, pressed) {
  const entry = waiting.get(element);
  entry.busy = true;
  entry.again = false;
  const started = performance.now();
  try {
    const answer = await fetch(element.dataset.src, {
      headers: { "X-Requested-With": "fetch" }, cache: "no-store", redirect: "manual",
    });
    if (answer.ok) bring(element, await answer.text(), pressed);
    else if (answer.status === 401 || answer.type === "opaqueredirect") location.reload();
  } catch {
    // The connection mark already says so; the next hint or poll tries again.
  }
  setTimeout(() => {
    entry.busy = false;
    if (entry.again) read(element, false);
  }, Math.max(SPACING_MS, 4 * (performance.now() - started)));
}

function bring(element, html, pressed) {
  waiting.get(element).changes.clear();
  if (element.dataset.liveMode === "rows" && !pressed) {
    button(element, patchRows(element, html));
    return;
  }
  swap(element, html);
  button(element, 0);
}

function ask(element, pressed = false) {
  if (!waiting.has(element)) waiting.set(element, { busy: false, again: false, changes: new Set() });
  const entry = waiting.get(element);
  if (entry.busy && !pressed) entry.again = true;
  else read(element, pressed);
}

function button(element, count) {
  const found = (element.closest(".card") || element).querySelector("[data-fresh]");
  if (!found) return;
  found.hidden = count === 0;
  if (count) found.textContent = count === 1 ? found.dataset.one : found.dataset.many.replace("%n", count);
  if (!found.dataset.liveBound) {
    found.dataset.liveBound = "1";
    found.addEventListener("click", () => ask(element, true));
  }
}

// What was missed may be in the page already: it is read again, but no change is announced.
function hear(hints, missed = false) {
  for (const element of fragments()) {
    const mine = hints.filter((hint) => cares(element, hint));
    if (!mine.length) continue;
    if (element.dataset.liveMode !== "ask") {
      ask(element);
      continue;
    }
    if (missed) continue;
    if (!waiting.has(element)) waiting.set(element, { busy: false, again: false, changes: new Set() });
    const { changes } = waiting.get(element);
    for (const hint of mine) changes.add(`${hint.topic}:${hint.node || hint.ref}`);
    button(element, changes.size);
  }
}

function rereadAll() {
  for (const element of fragments()) if (element.dataset.liveMode !== "ask") ask(element);
}

function show() {
  const on = state.up && !state.deaf;
  word.classList.toggle("off", !on);
  word.querySelector("[data-word]").textContent = on ? word.dataset.on : word.dataset.off;
  const seconds = Math.floor((Date.now() - state.since) / 1000);
  word.querySelector("[data-age-text]").textContent = on ? "" : `${seconds} s`;
}

function lost() {
  if (!state.up && state.lost) return;
  state.up = false;
  state.since = state.lost = Date.now();
  show();
}

function back() {
  const gone = state.lost ? Math.round((Date.now() - state.lost) / 1000) : 0;
  state.up = true;
  state.deaf = false;
  state.since = Date.now();
  state.lost = 0;
  show();
  if (!gone) return;
  rereadAll();
  if (gone >= 5) toast(word.dataset.back, word.dataset.gone.replace("%s", `${gone} s`), word.dataset.close);
}

function event(name, data) {
  if (name === "hints") hear(data);
  if (name === "missed") hear(data, true);
  if (name === "reread") {
    state.deaf = false;
    rereadAll();
  }
  if (name === "deaf") {
    state.deaf = true;
    state.since = Date.now();
  }
  show();
}

if (word) {
  const stream = new Stream(word.dataset.url, { up: back, down: lost, event });
  let hiddenAt = 0;
  stream.open();
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      hiddenAt = Date.now();
      stream.close();
    } else if (hiddenAt) {
      state.lost = 0;
      stream.open();
      rereadAll();
    }
  });
  for (const element of document.querySelectorAll("[data-live-now][data-src]")) ask(element);
  addEventListener("pagehide", () => stream.close());
  addEventListener("pageshow", (shown) => { if (shown.persisted) { stream.open(); rereadAll(); } });
  setInterval(() => { if (!document.hidden && !(state.up && !state.deaf)) show(); }, 1000);
  setInterval(() => { if (!document.hidden && !(state.up && !state.deaf)) rereadAll(); }, POLL_MS);
}
