// The frame: jump field, theme without a reload, menus that close, toasts.

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key === "Escape") {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
    if (typing?.matches("[data-jump]")) typing.blur();
  }
  if (typing || event.altKey) return;
  const palette = event.key === "/" && !event.ctrlKey && !event.metaKey;
  if (palette || (event.key === "k" && (event.ctrlKey || event.metaKey))) {
    event.preventDefault();
    document.querySelector("[data-jump]")?.focus();
  }
});

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

const themes = [...document.querySelectorAll("[data-theme-form]")];

async function themed(event) {
  if (!event.submitter) return;
  event.preventDefault();
  const form = event.currentTarget, chosen = event.submitter.value;
  const body = new FormData(form, event.submitter);
  for (const button of themes.flatMap((one) => [...one.querySelectorAll("button")])) {
    button.setAttribute("aria-pressed", String(button.value === chosen));
  }
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  document.dispatchEvent(new CustomEvent("muster:theme"));
  try {
    await fetch(form.action, { method: "POST", body, redirect: "manual" });
  } catch {
    // The theme holds for this page; the next click tries again.
  }
}
for (const form of themes) form.addEventListener("submit", themed);

export function toast(title, text, closeWord) {
  const place = document.querySelector("[data-toasts]");
  if (!place) return;
  const box = document.createElement("div");
  box.className = "toast";
  box.innerHTML = '<svg class="mk ok" aria-hidden="true"><use href="#m-ok"/></svg><div><p><b></b></p><p></p></div>'
    + '<button type="button" class="btn bare"><svg aria-hidden="true"><use href="#i-x"/></svg></button>';
  box.querySelector("b").textContent = title;
  box.querySelectorAll("p")[1].textContent = text;
  const close = box.querySelector("button");
  close.setAttribute("aria-label", closeWord);
  close.addEventListener("click", () => box.remove());
  place.replaceChildren(box);
  setTimeout(() => box.remove(), 12000);
}
