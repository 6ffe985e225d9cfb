// The typing box: text, reply, emoji picker, command menu. Enter sends, Shift+Enter starts a line, Escape closes.
import { el } from "./elements.js";
import { preview } from "./message.js";
import { commandMenu, emojiPicker, paletteOf } from "./picker.js";

export class Composer {
  #store;
  #send;
  #chat = null;
  #messages = new Map();
  #drafts = new Map();
  #reply = null;
  #panel = null;

  constructor(store, person, send) {
    this.#store = store;
    this.#send = send;
    this.box = el("textarea", {
      rows: "1", placeholder: "Message", maxlength: "4096", "aria-label": `Message as ${person.name}`,
      "data-testid": "composer", enterkeyhint: "send",
    });
    this.box.addEventListener("input", () => this.#typed());
    this.box.addEventListener("keydown", (event) => this.#key(event));
    this.place = el("div", { class: "popover-place" });
    this.replyBar = el("div", { class: "reply-bar", hidden: true });
    this.menuButton = this.#tool("/", "Commands", "open-menu", () => this.#toggle("menu"));
    this.emojiButton = this.#tool("🙂", "Emojis", "open-emojis", () => this.#toggle("emoji"));
    this.element = el("form", { class: "composer" }, this.place, this.replyBar,
      el("div", { class: "composer-line" }, this.menuButton, this.box, this.emojiButton,
        el("button", { type: "submit", class: "send", "aria-label": "Send", "data-testid": "send" }, "➤")));
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      if (this.#panel) this.#close(true);
      else this.replyTo(null);
    });
  }

  // A press elsewhere closes the open panel.
  pressedAt(target) {
    if (this.#panel && !this.element.contains(target)) this.#close();
  }

  // The chat that is open now, with its messages.
  context(chat, messages) {
    this.#messages = messages ?? new Map();
    if (chat.chat_id === this.#chat?.chat_id) {
      this.#chat = chat;
      return;
    }
    if (this.#chat) this.#drafts.set(this.#chat.chat_id, this.box.value);
    this.#chat = chat;
    this.box.value = this.#drafts.get(chat.chat_id) ?? "";
    this.replyTo(null);
    this.#close();
    this.#grow();
  }

  replyTo(message) {
    this.#reply = message?.message_id ?? null;
    this.replyBar.hidden = !message;
    this.replyBar.replaceChildren();
    if (!message) return;
    this.replyBar.append(el("span", {}, `↩ ${message.from.first_name}: ${preview(message)}`),
      el("button", { type: "button", "aria-label": "Do not reply", onclick: () => this.replyTo(null) }, "✕"));
    this.box.focus();
  }

  #tool(sign, label, test, onclick) {
    return el("button", {
      type: "button", class: "tool", "aria-label": label, title: label, "aria-expanded": "false", "data-testid": test, onclick,
    }, sign);
  }

  async #submit() {
    const text = this.box.value;
    if (!text.trim()) return;
    this.#close();
    this.box.value = "";
    this.#grow();
    if (await this.#send(text, this.#reply)) this.replyTo(null);
    else if (!this.box.value) this.box.value = text;
  }

  #key(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.#submit();
    } else if (event.key === "ArrowUp" && this.#panel === "menu") {
      event.preventDefault();
      [...this.place.querySelectorAll("button")].at(-1)?.focus();
    }
  }

  #typed() {
    this.#grow();
    const typed = /^\/(\w*)$/.exec(this.box.value)?.[1];
    if (typed === undefined) {
      if (this.#panel === "menu") this.#close();
      return;
    }
    const fitting = this.#chat.commands.filter((item) => item.command.startsWith(typed));
    if (fitting.length) this.#show("menu", commandMenu(fitting, (command) => this.#command(command)));
    else this.#close();
  }

  #command(command) {
    this.#close();
    this.box.value = "";
    this.#grow();
    this.#send(`/${command}`, this.#reply);
    this.box.focus();
  }

  #toggle(kind) {
    if (this.#panel === kind) {
      this.#close(true);
      return;
    }
    const panel = kind === "menu"
      ? commandMenu(this.#chat.commands, (command) => this.#command(command))
      : emojiPicker(paletteOf([...this.#messages.values()], this.#store.bot.user_id), (emoji) => this.#insert(emoji));
    this.#show(kind, panel);
    panel.querySelector("button")?.focus();
  }

  #insert(text) {
    this.box.setRangeText(text, this.box.selectionStart, this.box.selectionEnd, "end");
    this.#grow();
  }

  #show(kind, panel) {
    this.#panel = kind;
    this.place.replaceChildren(panel);
    this.menuButton.setAttribute("aria-expanded", String(kind === "menu"));
    this.emojiButton.setAttribute("aria-expanded", String(kind === "emoji"));
  }

  #close(refocus = false) {
    this.#panel = null;
    this.place.replaceChildren();
    this.menuButton.setAttribute("aria-expanded", "false");
    this.emojiButton.setAttribute("aria-expanded", "false");
    if (refocus) this.box.focus();
  }

  #grow() {
    this.box.style.height = "auto";
    if (this.box.scrollHeight === 0) return; // not shown: there is nothing to measure
    this.box.style.height = `${Math.min(this.box.scrollHeight, 120)}px`;
  }
}
