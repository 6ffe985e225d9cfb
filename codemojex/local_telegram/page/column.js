// One person's Telegram: the list of chats above, the open chat below.
import { post } from "./api.js";
import { ChatPane } from "./chat.js";
import { avatar, clock, el, walk } from "./elements.js";
import { preview, seenBy } from "./message.js";

export class Column {
  #store;
  #person;
  #list;
  #rows = new Map();
  #unread = new Map();
  #pane;
  #handlers = [];
  #open = null;

  constructor(store, person) {
    this.#store = store;
    this.#person = person;
    this.#list = el("div", { class: "chats", role: "group", "aria-label": `Chats of ${person.name}` });
    walk(this.#list);
    this.#pane = new ChatPane(store, person, { openPrivate: (payload) => this.#openPrivate(payload) });
    this.element = el("section", {
      class: "column", "data-testid": "person", "data-person": person.user_id, "aria-label": person.name, tabindex: "-1",
    }, el("header", { class: "owner" },
      avatar(person.user_id, person.name),
      el("h2", {}, person.name),
      person.username ? el("span", { class: "username" }, `@${person.username}`) : null,
      person.language ? el("span", { class: "badge", title: "Language" }, person.language) : null,
    ), this.#list, this.#pane.element);
  }

  async start() {
    await this.#store.show(this.#person.user_id);
    this.#on("state", () => this.#draw());
    this.#on("reset", () => this.#select(this.#open));
    this.#on("message", ({ chat_id: chatId, message }) => {
      if (!seenBy(message, this.#person.user_id)) return;
      if (!this.#chats().has(chatId)) return;
      if (chatId !== this.#open && message.from.id !== this.#person.user_id) {
        this.#unread.set(chatId, (this.#unread.get(chatId) ?? 0) + 1);
      }
      this.#draw();
    });
    this.#on("edited", () => this.#draw());
    const asked = Number(new URLSearchParams(location.search).get("chat"));
    const chats = this.#chats();
    const first = chats.has(asked) ? asked : [...chats.keys()].find((id) => id !== this.#person.user_id);
    await this.#select(first ?? this.#person.user_id);
  }

  remove() {
    for (const [kind, handler] of this.#handlers) this.#store.removeEventListener(kind, handler);
    this.#pane.remove();
    this.element.remove();
  }

  focus() {
    this.element.focus({ preventScroll: true });
  }

  #on(kind, handle) {
    const handler = (event) => handle(event.detail);
    this.#handlers.push([kind, handler]);
    this.#store.addEventListener(kind, handler);
  }

  #chats() {
    return this.#store.views.get(this.#person.user_id)?.chats ?? new Map();
  }

  async #select(chatId) {
    this.#open = chatId;
    this.#unread.delete(chatId);
    this.#draw();
    await this.#pane.open(chatId);
  }

  async #openPrivate(payload) {
    const me = this.#person.user_id;
    await this.#select(me);
    await post("send", { user_id: me, chat_id: me, text: `/start ${payload}`.trim() });
  }

  #draw() {
    const chats = this.#chats();
    if (this.#open !== null && !chats.has(this.#open)) {
      this.#select(this.#person.user_id);
      return;
    }
    for (const [id, row] of this.#rows) {
      if (chats.has(id)) continue;
      row.remove();
      this.#rows.delete(id);
    }
    for (const chat of chats.values()) this.#drawRow(chat);
  }

  // Rows stay the same elements, so that a press on one is not lost when a message arrives meanwhile.
  #drawRow(chat) {
    let row = this.#rows.get(chat.chat_id);
    if (!row) {
      row = el("button", {
        type: "button", class: "chat-row", "data-testid": "chat", "data-chat": chat.chat_id,
        onclick: () => this.#select(chat.chat_id),
      });
      this.#rows.set(chat.chat_id, row);
      this.#list.append(row);
    }
    const unread = this.#unread.get(chat.chat_id) ?? 0;
    const last = chat.last_message;
    row.setAttribute("aria-label", unread ? `${chat.title}, ${unread} unread` : chat.title);
    if (chat.chat_id === this.#open) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
    row.replaceChildren(
      avatar(chat.chat_id, chat.title, chat.type === "private"),
      el("span", { class: "chat-name" }, chat.title, ...(chat.is_forum ? [el("small", {}, " topics")] : [])),
      el("span", { class: "chat-time" }, last ? clock(last.date) : ""),
      el("span", { class: "chat-preview" }, last ? preview(last) : "No messages yet"),
      ...(unread ? [el("span", { class: "unread", "data-testid": "unread" }, String(unread))] : []),
    );
  }
}
