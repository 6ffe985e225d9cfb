// Small helpers to build elements. Texts always go through text nodes, never through markup.

export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function avatar(id, name, bot = false) {
  const hue = Number(BigInt(Math.abs(id)) * 47n % 360n);
  const sign = bot ? "🤖" : ([...name.trim()][0] ?? "?").toUpperCase();
  const element = el("span", { class: bot ? "avatar bot" : "avatar", "aria-hidden": "true" }, sign);
  element.style.setProperty("--hue", hue);
  return element;
}

export function hueOf(id) {
  return Number(BigInt(Math.abs(id)) * 47n % 360n);
}

// Fill a container only when what it shows has changed: an element that is being pressed must stay.
export function fill(container, shows, build) {
  const signature = JSON.stringify(shows);
  if (container.signature === signature) return;
  container.signature = signature;
  container.replaceChildren(...build());
}

export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

// Arrow keys walk over the buttons of a container; `across` is how many stand in a row.
export function walk(container, across = () => 1) {
  container.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across(), ArrowUp: -across() };
    const step = steps[event.key];
    if (step === undefined) return;
    const items = [...container.querySelectorAll("button:not([disabled])")];
    const at = items.indexOf(document.activeElement);
    if (at < 0) return;
    event.preventDefault();
    items[Math.min(items.length - 1, Math.max(0, at + step))].focus();
  });
}
