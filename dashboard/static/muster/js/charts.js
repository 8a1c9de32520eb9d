// Draws charts when they scroll into view.
//
//   <div class="plot" data-figure="/nodes/x/figures/power" data-height="160" data-figure-every="15"></div>
//
// The URL answers {"data": [...], "layout": {...}, "text": "the text alternative"} with template "none". A colour is
// written as "var(--c-1)"; it is resolved here, again when the theme changes. Dates are UTC; in another zone their text
// is shifted and the range with it, so the same span stays in view. The bundle is loaded with the first chart.

import { zone } from "./times.js";

const HERE = new URL("../../vendor/plotly/", import.meta.url);
const SHIFT_MS = { UTC: 0, KST: 9 * 3600000 };
const CONFIG = { displayModeBar: false, responsive: true, displaylogo: false, doubleClick: "reset" };
let bundle = null;

function load() {
  bundle ??= new Promise((resolve, reject) => {
    const sheet = document.createElement("link");
    sheet.id = "plotly.js-style-global";
    sheet.className = "no-inline-styles";
    sheet.rel = "stylesheet";
    sheet.href = new URL("plotly.css", HERE).href;
    const script = document.createElement("script");
    script.src = new URL("plotly-cartesian.min.js", HERE).href;
    script.addEventListener("load", () => resolve(globalThis.Plotly));
    script.addEventListener("error", reject);
    document.head.append(sheet, script);
  });
  return bundle;
}

function palette() {
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  const known = new Map();
  return {
    resolve(name) {
      if (!known.has(name)) {
        probe.style.color = name;
        known.set(name, getComputedStyle(probe).color);
      }
      return known.get(name);
    },
    done: () => probe.remove(),
  };
}

function painted(value, colours) {
  if (typeof value === "string") return /^var\(--[\w-]+\)$/.test(value) ? colours.resolve(value) : value;
  if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map((item) => painted(item, colours));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, painted(item, colours)]));
  }
  return value;
}

function shifted(values) {
  const by = SHIFT_MS[zone()];
  return by ? values.map((v) => (typeof v === "string" ? new Date(Date.parse(v) + by).toISOString().slice(0, 23) : v)) : values;
}

function prepared(figure, height) {
  const colours = palette();
  const base = {
    template: "none", height, margin: { l: 52, r: 12, t: 8, b: 28 }, showlegend: false, hovermode: "x unified",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: "zoom",
    font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: "var(--text-2)" },
    hoverlabel: { bgcolor: "var(--raised)", bordercolor: "var(--line-2)", font: { color: "var(--text)" } },
  };
  const axis = { gridcolor: "var(--c-grid)", linecolor: "var(--line-2)", zeroline: false, tickcolor: "var(--line-2)" };
  const layout = { ...base, ...figure.layout };
  const cursor = { spikethickness: 1, spikedash: "solid", spikecolor: "var(--text-3)" };
  const clock = figure.layout?.xaxis?.type === "date" ? { tickformat: "%H:%M", hoverformat: "%Y-%m-%d %H:%M:%S" } : {};
  layout.xaxis = { ...axis, ...cursor, ...clock, showgrid: false, ...figure.layout?.xaxis };
  layout.yaxis = { ...axis, rangemode: "tozero", ...figure.layout?.yaxis };
  let data = figure.data || [];
  if (layout.xaxis.type === "date") {
    data = data.map((trace) => (Array.isArray(trace.x) ? { ...trace, x: shifted(trace.x) } : trace));
    if (layout.xaxis.range) layout.xaxis.range = shifted(layout.xaxis.range);
    layout.shapes = (layout.shapes || []).map((s) => ({ ...s, ...Object.fromEntries(["x0", "x1"].filter((k) => k in s).map((k) => [k, shifted([s[k]])[0]])) }));
  }
  const ready = { data: painted(data, colours), layout: painted(layout, colours) };
  colours.done();
  return ready;
}

const drawn = new Map();

async function draw(element) {
  const figure = drawn.get(element);
  if (!figure) return;
  const plotly = await load();
  const { data, layout } = prepared(figure, Number(element.dataset.height || 160));
  if (figure.text) {
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", figure.text);
  }
  await plotly.react(element, data, layout, CONFIG);
}

async function read(element) {
  try {
    const answer = await fetch(element.dataset.figure, { cache: "no-store" });
    if (!answer.ok) throw new Error(String(answer.status));
    drawn.set(element, await answer.json());
    await draw(element);
  } catch {
    if (!drawn.has(element)) element.textContent = element.dataset.failed || "";
  }
}

const inView = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    inView.unobserve(target);
    read(target);
    const every = Number(target.dataset.figureEvery || 0);
    if (every) setInterval(() => { if (!document.hidden && target.isConnected) read(target); }, every * 1000);
  }
}, { rootMargin: "200px" });

for (const element of document.querySelectorAll("[data-figure]")) inView.observe(element);
const again = () => { for (const element of drawn.keys()) draw(element); };
document.addEventListener("muster:theme", again);
document.addEventListener("muster:zone", again);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
