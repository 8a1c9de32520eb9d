// Brings new HTML into a live fragment by changing only what differs, so that focus, hover, open details and what a
// person is typing stay. Forms are left alone while they hold focus.

function sameKind(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName;
}

function attributes(from, to) {
  for (const { name } of [...from.attributes]) {
    const kept = name === "tabindex" || name === "open" || name === "data-live-bound";
    if (!kept && !to.hasAttribute(name)) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (name === "tabindex" && from.hasAttribute("tabindex")) continue;
    if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
}

function children(from, to) {
  const old = [...from.childNodes], fresh = [...to.childNodes];
  for (let i = 0; i < fresh.length; i += 1) {
    if (i >= old.length) from.append(fresh[i]);
    else if (sameKind(old[i], fresh[i])) morph(old[i], fresh[i]);
    else old[i].replaceWith(fresh[i]);
  }
  for (let i = fresh.length; i < old.length; i += 1) old[i].remove();
}

function morph(from, to) {
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  if (from.isEqualNode(to)) return;
  if (from.nodeName === "FORM" && from.contains(document.activeElement)) return;
  if (from.hasAttribute("data-live-keep")) return;
  attributes(from, to);
  children(from, to);
}

export function swap(element, html) {
  const parsed = document.createElement("template");
  parsed.innerHTML = html;
  children(element, parsed.content);
  element.dispatchEvent(new CustomEvent("muster:swapped", { bubbles: true }));
}

function keys(root) {
  return [...root.querySelectorAll("tr[data-key]")].map((row) => row.dataset.key);
}

/** Brings new values into rows that are there already; returns how many rows came, went or moved, and leaves those. */
export function patchRows(element, html) {
  const parsed = document.createElement("template");
  parsed.innerHTML = html;
  const old = keys(element), fresh = keys(parsed.content);
  const moved = fresh.filter((key, i) => old[i] !== key).length + old.filter((key) => !fresh.includes(key)).length;
  if (!moved || !old.length) {
    children(element, parsed.content);
  } else {
    const byKey = new Map([...parsed.content.querySelectorAll("tr[data-key]")].map((row) => [row.dataset.key, row]));
    for (const row of element.querySelectorAll("tr[data-key]")) {
      const next = byKey.get(row.dataset.key);
      if (next) morph(row, next);
    }
  }
  element.dispatchEvent(new CustomEvent("muster:swapped", { bubbles: true }));
  return old.length ? moved : 0;
}
