// What the page knows: the bot, the people, every chat that somebody opened with its messages.
// Changes come in as events; whoever shows something subscribes.
import { get, listen } from "./api.js";

export class Store extends EventTarget {
  bot = { user_id: 0, name: "", username: "", description: "" };
  people = [];
  views = new Map(); // user id → { chats: Map(chat id → view with commands) }
  messages = new Map(); // chat id → Map(message id → message)
  #opening = new Map();
  #loading = null;
  #again = false;

  async start(onConnection) {
    await this.reload();
    let first = true;
    listen((event) => this.#apply(event), (connected) => {
      onConnection(connected);
      if (connected && !first) this.#reset();
      if (connected) first = false;
    });
  }

  // Load people and chats again; calls made meanwhile share one more load.
  reload() {
    if (this.#loading) {
      this.#again = true;
      return this.#loading;
    }
    this.#loading = this.#load().finally(() => {
      this.#loading = null;
      if (this.#again) {
        this.#again = false;
        this.reload();
      }
    });
    return this.#loading;
  }

  async #load() {
    const all = await get("state");
    this.bot = all.bot;
    this.people = all.people;
    const wanted = this.people.filter((person) => this.views.has(person.user_id));
    await Promise.all(wanted.map((person) => this.#loadView(person.user_id)));
    this.#tell("state", {});
  }

  async #loadView(userId) {
    const state = await get("state", { user_id: userId });
    this.views.set(userId, { chats: new Map(state.chats.map((chat) => [chat.chat_id, chat])) });
  }

  async show(userId) {
    if (!this.views.has(userId)) await this.#loadView(userId);
    return this.views.get(userId);
  }

  // The messages of a chat. Events that arrive during the load are newer than what it brings.
  async open(chatId) {
    if (!this.messages.has(chatId)) {
      const early = new Map();
      this.messages.set(chatId, early);
      this.#opening.set(chatId, get("messages", { chat_id: chatId }).then((list) => {
        const all = new Map(list.map((message) => [message.message_id, message]));
        for (const [id, message] of early) all.set(id, message);
        this.messages.set(chatId, all);
      }));
    }
    await this.#opening.get(chatId);
    return this.messages.get(chatId);
  }

  async #reset() {
    const open = [...this.messages.keys()];
    this.messages.clear();
    await Promise.all(open.map((chatId) => this.open(chatId)));
    await this.reload();
    this.#tell("reset", {});
  }

  #apply(event) {
    switch (event.kind) {
      case "message":
      case "edited":
        this.messages.get(event.chat_id)?.set(event.message.message_id, event.message);
        for (const view of this.views.values()) {
          const chat = view.chats.get(event.chat_id);
          if (!chat || event.message.receiver_user) continue;
          if ((chat.last_message?.message_id ?? 0) <= event.message.message_id) chat.last_message = event.message;
        }
        this.#tell(event.kind, event);
        if (event.message.text?.startsWith("/start")) this.reload();
        break;
      case "deleted":
        this.messages.get(event.chat_id)?.delete(event.message_id);
        this.#tell("deleted", event);
        break;
      case "typing":
        this.#tell("typing", event);
        break;
      case "reset":
        this.#reset();
        break;
      default:
        this.reload();
    }
  }

  #tell(kind, detail) {
    this.dispatchEvent(new CustomEvent(kind, { detail }));
  }
}
