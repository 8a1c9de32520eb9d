// Keeps ages and countdowns true and writes absolute times in the chosen zone. Text only: no range ever shifts.

const units = (document.body.dataset.units || "s,min,h,d").split(",");
const agoForm = document.body.dataset.ago || "%s ago";
const OFFSET_MINUTES = { UTC: 0, KST: 540 };

const two = (n) => String(n).padStart(2, "0");

const spaced = (n, unit) => (document.documentElement.lang === "ko" ? `${n}${unit}` : `${n} ${unit}`);

function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const minutes = Math.floor(whole / 60), hours = Math.floor(whole / 3600), days = Math.floor(whole / 86400);
  const [s, min, h, d] = units;
  if (whole < 60) return spaced(whole, s);
  if (!hours) return spaced(minutes, min);
  if (!days) return minutes % 60 ? `${spaced(hours, h)} ${spaced(minutes % 60, min)}` : spaced(hours, h);
  return hours % 24 && days < 7 ? `${spaced(days, d)} ${spaced(hours % 24, h)}` : spaced(days, d);
}

function left(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const minutes = Math.floor(whole / 60);
  if (minutes >= 48 * 60) return span(whole);
  if (minutes >= 60) return `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(whole % 60)}`;
  return `${minutes}:${two(whole % 60)}`;
}

function written(iso, form, zone) {
  const at = new Date(Date.parse(iso) + OFFSET_MINUTES[zone] * 60000);
  const day = `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())}`;
  const hm = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
  const hms = `${hm}:${two(at.getUTCSeconds())}`;
  return { hm, hms, day, full: `${day} ${hms}` }[form];
}

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function zone() {
  const found = document.cookie.match(/(?:^|; )zone=(UTC|KST)/);
  return found ? found[1] : "UTC";
}

function tick(root = document) {
  const now = Date.now();
  for (const node of root.querySelectorAll("time[data-age]")) {
    const text = span((now - Date.parse(node.dateTime)) / 1000);
    put(node, node.dataset.age === "ago" ? agoForm.replace("%s", text) : text);
  }
  for (const node of root.querySelectorAll("[data-until]")) {
    put(node, left((Date.parse(node.dataset.until) - now) / 1000));
  }
}

export function rewrite(root = document) {
  const chosen = zone();
  for (const node of root.querySelectorAll("time[datetime]")) {
    if (node.dataset.at) put(node, written(node.dateTime, node.dataset.at, chosen));
    node.title = `${written(node.dateTime, "full", chosen)} ${chosen}`;
  }
  for (const node of root.querySelectorAll("[data-zone]")) put(node, chosen);
}

const zones = [...document.querySelectorAll("[data-zones] input")];
for (const radio of zones) {
  radio.checked = radio.value === zone();
  radio.addEventListener("change", () => {
    document.cookie = `zone=${radio.value}; path=/; max-age=31536000; samesite=lax`;
    for (const other of zones) other.checked = other.value === zone();
    rewrite();
    document.dispatchEvent(new CustomEvent("muster:zone"));
  });
}
if (zone() !== "UTC") rewrite();
document.addEventListener("muster:swapped", (event) => { if (zone() !== "UTC") rewrite(event.target); tick(event.target); });
setInterval(() => { if (!document.hidden) tick(); }, 1000);
