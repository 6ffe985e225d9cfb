// The open chat of one person: topics, bubbles that are updated in place, Start, toasts and alerts.
import { post } from "./api.js";
import { Composer } from "./composer.js";
import { el, fill } from "./elements.js";
import { messageElement, preview, seenBy } from "./message.js";

const TOAST_MS = 4000;
const TYPING_MS = 5000;

export class ChatPane {
  #store;
  #person;
  #openPrivate;
  #chatId = null;
  #thread = null; // null: everything (or General when writing)
  #elements = new Map();
  #handlers = [];
  #stick = true;
  #pinned = null;

  constructor(store, person, { openPrivate }) {
    this.#store = store;
    this.#person = person;
    this.#openPrivate = openPrivate;
    this.subtitle = el("p", { class: "subtitle", "data-testid": "subtitle" });
    this.title = el("h3", {});
    this.topics = el("div", { class: "topics", role: "group", "aria-label": "Topics" });
    this.pinnedBar = el("button", { type: "button", class: "pinned", "data-testid": "pinned", hidden: true });
    this.pinnedBar.addEventListener("click", () => this.#jump(this.#pinned));
    this.list = el("div", { class: "messages", role: "list", "data-testid": "messages", tabindex: "0" });
    this.list.addEventListener("scroll", () => {
      this.#stick = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 60;
    });
    new ResizeObserver(() => this.#settle()).observe(this.list);
    this.welcome = el("div", { class: "welcome", "data-testid": "welcome", hidden: true });
    this.toasts = el("div", { class: "toasts", role: "status", "aria-live": "polite" });
    this.composer = new Composer(store, person, (text, replyTo) => this.#send(text, replyTo));
    this.element = el("div", { class: "pane", onpointerdown: (event) => this.composer.pressedAt(event.target) },
      el("header", { class: "pane-head" }, this.title, this.subtitle),
      this.topics, this.pinnedBar, this.list, this.welcome, this.toasts, this.composer.element);
    this.#on("message", (event) => this.#put(event));
    this.#on("edited", (event) => this.#put(event));
    this.#on("deleted", ({ chat_id: chatId, message_id: id }) => {
      if (chatId !== this.#chatId) return;
      this.#elements.get(id)?.remove();
      this.#elements.delete(id);
    });
    this.#on("state", () => this.#head());
    this.#on("typing", ({ chat_id: chatId }) => { if (chatId === this.#chatId) this.#typing(); });
  }

  remove() {
    for (const [kind, handler] of this.#handlers) this.#store.removeEventListener(kind, handler);
  }

  async open(chatId) {
    const another = chatId !== this.#chatId;
    this.#chatId = chatId;
    if (another) this.#thread = null;
    const messages = await this.#store.open(chatId);
    if (chatId !== this.#chatId) return;
    this.list.setAttribute("aria-label", `Messages of ${this.#chat()?.title ?? "the chat"}`);
    this.list.dataset.chat = chatId;
    this.#elements.clear();
    this.#stick = true;
    const made = [...messages.values()].filter((message) => this.#belongs(message)).map((message) => this.#make(message));
    this.list.replaceChildren(...made);
    this.#head();
    this.#settle();
  }

  #on(kind, handle) {
    const handler = (event) => handle(event.detail);
    this.#handlers.push([kind, handler]);
    this.#store.addEventListener(kind, handler);
  }

  #chat() {
    return this.#store.views.get(this.#person.user_id)?.chats.get(this.#chatId);
  }

  #belongs(message) {
    if (!seenBy(message, this.#person.user_id)) return false;
    return this.#thread === null || message.message_thread_id === this.#thread;
  }

  #make(message) {
    const element = messageElement(message, {
      person: this.#person, bot: this.#store.bot, chat: this.#chat() ?? { type: "private" },
      onPress: (pressed, button, key) => this.#press(pressed, button, key),
      onReply: (target) => this.composer.replyTo(target),
      onJump: (id) => this.#jump(id),
      onCommand: (text) => this.#send(text),
      onLink: (url) => this.#link(url),
    });
    this.#elements.set(message.message_id, element);
    return element;
  }

  #put({ chat_id: chatId, message }) {
    if (chatId !== this.#chatId || !this.#belongs(message)) return;
    const old = this.#elements.get(message.message_id);
    const focused = old?.contains(document.activeElement) ? document.activeElement.dataset.callback : undefined;
    const element = this.#make(message);
    if (old?.keyboard && old.keyboard === element.keyboard) {
      // Only the bubble changes: a button of the same keyboard may be under a finger now.
      old.querySelector(".line").replaceWith(element.querySelector(".line"));
      this.#elements.set(message.message_id, old);
    } else if (old) {
      old.replaceWith(element);
      if (focused !== undefined) element.querySelector(`[data-callback="${CSS.escape(focused)}"]`)?.focus();
    } else {
      element.classList.add("fresh");
      this.list.append(element);
      if (message.from.id === this.#person.user_id) this.#stick = true;
    }
    if (message.message_id === this.#pinned) this.#head();
    this.#settle();
  }

  #settle() {
    if (this.#stick) this.list.scrollTop = this.list.scrollHeight;
  }

  #head() {
    const chat = this.#chat();
    if (!chat) return;
    const bot = this.#store.bot;
    this.title.textContent = chat.title;
    const count = Object.values(chat.members).filter((status) => !["left", "kicked"].includes(status)).length;
    const group = `${count} members${chat.bot === "left" || chat.bot === "kicked" ? ", without the bot" : ""}`;
    this.subtitle.textContent = chat.type === "private" ? "bot" : group;
    this.#drawTopics(chat);
    this.#pinned = chat.pinned.at(-1) ?? null;
    const pinned = this.#store.messages.get(chat.chat_id)?.get(this.#pinned);
    this.pinnedBar.hidden = !pinned;
    this.pinnedBar.textContent = pinned ? `📌 ${preview(pinned)}` : "";
    const waits = chat.type === "private" && (!chat.started || chat.blocked);
    this.welcome.hidden = !waits;
    this.composer.element.hidden = waits;
    if (waits) {
      fill(this.welcome, [chat.blocked, bot], () => [
        el("p", {}, chat.blocked ? "You blocked this bot." : bot.description || `Talk to ${bot.name}.`),
        el("button", { type: "button", class: "primary", "data-testid": "start", onclick: () => this.#send("/start") },
          chat.blocked ? "Unblock and start" : "Start"),
      ]);
    }
    this.composer.context(chat, this.#store.messages.get(chat.chat_id));
  }

  #drawTopics(chat) {
    this.topics.hidden = !chat.is_forum;
    if (!chat.is_forum) return;
    const chip = (name, thread) => el("button", {
      type: "button", class: "chip", "aria-pressed": String(this.#thread === thread), "data-testid": "topic",
      "data-thread": thread ?? "", onclick: () => { this.#thread = thread; this.open(this.#chatId); },
    }, name);
    fill(this.topics, [chat.topics, this.#thread, chat.chat_id], () => [
      chip("All · General", null),
      ...chat.topics.map((topic) => chip(topic.closed ? `🔒 ${topic.name}` : topic.name, topic.thread_id)),
      el("button", {
        type: "button", class: "chip", "data-testid": "add-topic", "aria-label": "New topic", onclick: () => this.#askTopic(),
      }, "+"),
    ]);
  }

  #askTopic() {
    const name = el("input", { name: "name", required: true, maxlength: "128", autocomplete: "off", "data-testid": "topic-name" });
    const form = el("form", { method: "dialog" }, el("h2", {}, "New topic"), el("label", {}, "Name ", name),
      el("div", { class: "sheet-actions" }, el("button", { class: "primary" }, "Open")));
    const dialog = el("dialog", { class: "sheet", "aria-label": "New topic" }, form);
    form.addEventListener("submit", () => {
      post("topics", { user_id: this.#person.user_id, chat_id: this.#chatId, name: name.value })
        .catch((error) => this.#toast(error.message, "problem"));
    });
    dialog.addEventListener("close", () => dialog.remove());
    this.element.append(dialog);
    dialog.showModal();
  }

  async #send(text, replyTo) {
    try {
      await post("send", {
        user_id: this.#person.user_id, chat_id: this.#chatId, text, reply_to: replyTo, thread_id: this.#thread,
      });
      return true;
    } catch (error) {
      this.#toast(error.message, "problem");
      return false;
    }
  }

  async #press(message, button, key) {
    key.setAttribute("aria-busy", "true");
    try {
      const { answer } = await post("press", {
        user_id: this.#person.user_id, chat_id: message.chat.id, message_id: message.message_id, data: button.callback_data,
      });
      if (answer === null) this.#toast("The bot did not answer.", "problem");
      else if (answer.show_alert) this.#alert(answer.text);
      else if (answer.text) this.#toast(answer.text);
    } catch (error) {
      this.#toast(error.message, "problem");
    } finally {
      key.removeAttribute("aria-busy");
    }
  }

  // A t.me link to the bot opens the private chat here instead of a browser tab.
  #link(url) {
    const names = [`/${this.#store.bot.username}`.toLowerCase()];
    if (url.hostname !== "t.me" || !names.includes(url.pathname.toLowerCase())) return false;
    this.#openPrivate(url.searchParams.get("start") ?? "");
    return true;
  }

  #jump(id) {
    const element = this.#elements.get(id);
    element?.scrollIntoView({ block: "center" });
    element?.classList.remove("found");
    requestAnimationFrame(() => element?.classList.add("found"));
  }

  #typing() {
    const chat = this.#chat();
    this.subtitle.textContent = "typing…";
    clearTimeout(this.typingTimer);
    this.typingTimer = setTimeout(() => { if (chat) this.#head(); }, TYPING_MS);
  }

  #toast(text, look = "") {
    const toast = el("div", { class: `toast ${look}`, "data-testid": "toast" }, text);
    this.toasts.append(toast);
    setTimeout(() => toast.remove(), TOAST_MS);
  }

  #alert(text) {
    const dialog = el("dialog", { class: "sheet alert", "data-testid": "alert", "aria-label": "Answer" },
      el("p", {}, text),
      el("form", { method: "dialog", class: "sheet-actions" }, el("button", { class: "primary", autofocus: true }, "OK")));
    dialog.addEventListener("close", () => dialog.remove());
    this.element.append(dialog);
    dialog.showModal();
  }
}
