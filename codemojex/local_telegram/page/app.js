// The page: which people are shown side by side, and the dialogs that add people and groups.
import { post } from "./api.js";
import { Column } from "./column.js";
import { avatar, el, fill } from "./elements.js";
import { Store } from "./store.js";

const SHOWN_AT_FIRST = 3;
const REMEMBERED = "local-telegram-shown";
const store = new Store();
const columns = new Map();
const place = document.getElementById("columns");
const asked = new URLSearchParams(location.search).getAll("person").map(Number);
let shown = null;

function narrow() {
  return matchMedia("(max-width: 719px)").matches;
}

function remembered() {
  try {
    return JSON.parse(localStorage.getItem(REMEMBERED) ?? "null");
  } catch {
    return null;
  }
}

function choose() {
  const ids = store.people.map((person) => person.user_id);
  if (shown === null) {
    const wanted = (asked.length ? asked : remembered() ?? []).filter((id) => ids.includes(id));
    if (ids.length === 0) return;
    shown = new Set(wanted.length ? wanted : ids.slice(0, SHOWN_AT_FIRST));
  }
  for (const id of ids) if (shown.size < SHOWN_AT_FIRST && !store.seen?.has(id)) shown.add(id);
  store.seen = new Set(ids);
}

async function draw() {
  choose();
  document.getElementById("bot-name").textContent = store.bot.username ? `@${store.bot.username}` : "";
  document.getElementById("nobody").hidden = store.people.length > 0;
  place.hidden = store.people.length === 0;
  for (const [id, column] of columns) {
    if (shown?.has(id)) continue;
    column.remove();
    columns.delete(id);
  }
  for (const person of store.people) {
    if (!shown?.has(person.user_id) || columns.has(person.user_id)) continue;
    const column = new Column(store, person);
    columns.set(person.user_id, column);
    await column.start();
  }
  const order = store.people.filter((person) => columns.has(person.user_id)).map((p) => columns.get(p.user_id).element);
  order.forEach((element, index) => {
    if (place.children[index] !== element) place.insertBefore(element, place.children[index] ?? null);
  });
  place.style.setProperty("--count", Math.max(1, order.length));
  drawPeople();
}

function drawPeople() {
  const nav = document.getElementById("people");
  const chips = () => store.people.map((person) => el("button", {
    type: "button", class: "chip", "data-testid": "person-tab", "data-person": person.user_id,
    "aria-pressed": String(shown.has(person.user_id)), title: `Show or hide ${person.name}`,
    onclick: () => toggle(person.user_id),
  }, avatar(person.user_id, person.name), el("span", {}, person.name)));
  fill(nav, store.people.map((person) => [person, shown.has(person.user_id)]), chips);
}

async function toggle(userId) {
  const there = shown.has(userId);
  if (there && !narrow() && shown.size > 1) shown.delete(userId);
  else shown.add(userId);
  localStorage.setItem(REMEMBERED, JSON.stringify([...shown]));
  await draw();
  columns.get(userId)?.element.scrollIntoView({ inline: "start", block: "nearest" });
  columns.get(userId)?.focus();
}

function dialog(id, onSubmit, onOpen = () => {}) {
  const element = document.getElementById(id);
  const form = element.querySelector("form");
  const problem = element.querySelector(".problem");
  for (const button of document.querySelectorAll(`[data-open="${id}"]`)) {
    button.addEventListener("click", () => {
      form.reset();
      problem.textContent = "";
      onOpen(element);
      element.showModal();
    });
  }
  element.querySelector("[data-close]").addEventListener("click", () => element.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await onSubmit(new FormData(form));
      element.close();
    } catch (error) {
      problem.textContent = error.message;
    }
  });
}

dialog("person-dialog", async (form) => {
  const { user_id: userId } = await post("people", {
    name: form.get("name"), username: form.get("username") || null, language: form.get("language") || null,
  });
  shown = (shown ?? new Set()).add(userId);
  await store.reload();
});

dialog("group-dialog", async (form) => {
  await post("groups", {
    title: form.get("title"), members: form.getAll("members").map(Number), forum: form.has("forum"),
    bot_admin: form.has("bot_admin"), privacy: form.has("privacy"),
  });
}, (element) => {
  const boxes = store.people.map((person) => el("label", { class: "check" },
    el("input", { type: "checkbox", name: "members", value: person.user_id, checked: shown?.has(person.user_id) }),
    person.name));
  element.querySelector("[data-members]").replaceChildren(...boxes);
});

// One drawing at a time, and one more when something changed meanwhile.
let drawing = null;
let redraw = false;
function schedule() {
  if (drawing) {
    redraw = true;
    return;
  }
  drawing = draw().finally(() => {
    drawing = null;
    if (redraw) {
      redraw = false;
      schedule();
    }
  });
}

store.addEventListener("state", schedule);
await store.start((connected) => {
  const sign = document.getElementById("connection");
  sign.textContent = connected ? "live" : "reconnecting…";
  sign.classList.toggle("live", connected);
});
