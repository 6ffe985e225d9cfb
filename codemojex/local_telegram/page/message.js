// One message as an element: a bubble, its quote, its inline keyboard; or a line about what happened in the chat.
import { clock, el, hueOf } from "./elements.js";
import { richText, safeUrl } from "./rich_text.js";

function name(user) {
  return user?.first_name ?? "Somebody";
}

function happening(message) {
  if (message.new_chat_members) {
    const users = message.new_chat_members;
    const joined = users.map(name).join(", ");
    return users.some((user) => user.id === message.from.id) ? `${joined} joined` : `${name(message.from)} added ${joined}`;
  }
  if (message.left_chat_member) return `${name(message.left_chat_member)} left`;
  if (message.forum_topic_created) return `Topic “${message.forum_topic_created.name}” was opened`;
  if (message.forum_topic_closed) return "The topic was closed";
  if (message.forum_topic_reopened) return "The topic was opened again";
  if (message.migrate_to_chat_id) return "The group became a supergroup";
  if (message.migrate_from_chat_id) return "The supergroup was a group before";
  return "Something happened";
}

export function preview(message) {
  if (!message) return "";
  return (message.text ?? happening(message)).replace(/\s+/g, " ").slice(0, 80);
}

// An ephemeral message is for one person only.
export function seenBy(message, userId) {
  return !message.receiver_user || message.receiver_user.id === userId;
}

// `view`: person, bot, chat; onPress(message, button, element), onReply(message), onJump(id), onCommand, onLink.
export function messageElement(message, view) {
  const common = {
    "data-testid": "message", "data-chat": message.chat.id, "data-message-id": message.message_id,
    role: "listitem",
  };
  if (message.text === undefined) {
    return el("div", { ...common, class: "happening" }, el("span", {}, happening(message)));
  }
  const own = message.from.id === view.person.user_id && !message.sender_chat;
  const fromBot = message.from.id === view.bot.user_id;
  const side = own ? "own" : fromBot ? "theirs from-bot" : "theirs";
  const bubble = el("div", { class: "bubble" });
  if (!own && view.chat.type !== "private") {
    const sender = el("div", { class: "sender" }, message.sender_chat?.title ?? name(message.from));
    sender.style.setProperty("--hue", hueOf(message.from.id));
    bubble.append(sender);
  }
  if (message.reply_to_message && !message.reply_to_message.forum_topic_created) {
    const target = message.reply_to_message;
    bubble.append(el("button", { type: "button", class: "quote", onclick: () => view.onJump(target.message_id) },
      el("b", {}, name(target.from)), el("span", {}, preview(target))));
  }
  const text = el("div", { class: onlyEmojis(message.text) ? "text large" : "text", "data-testid": "text" });
  text.append(richText(message.text, message.entities, view));
  const stamp = el("span", { class: "stamp" });
  if (message.receiver_user) stamp.append(el("i", {}, "only you see this "));
  if (message.edit_date) stamp.append(el("i", {}, "edited "));
  stamp.append(el("time", { datetime: new Date(message.date * 1000).toISOString() }, clock(message.date)));
  bubble.append(text, stamp);
  const reply = el("button", {
    type: "button", class: "reply", title: "Reply", "aria-label": `Reply to ${name(message.from)}`,
    "data-testid": "reply", onclick: () => view.onReply(message),
  }, "↩");
  const stack = el("div", { class: "stack" }, el("div", { class: "line" }, bubble, reply));
  if (message.reply_markup?.inline_keyboard) stack.append(keyboard(message, view));
  const element = el("div", { ...common, class: `message ${side}` }, stack);
  element.keyboard = message.reply_markup ? JSON.stringify(message.reply_markup) : "";
  return element;
}

function keyboard(message, view) {
  const rows = message.reply_markup.inline_keyboard.map((row) => {
    const element = el("div", { class: "keyboard-row" });
    element.append(...row.map((button) => keyboardButton(message, button, view)));
    return element;
  });
  return el("div", { class: "keyboard", role: "group", "aria-label": "Buttons" }, ...rows);
}

function keyboardButton(message, button, view) {
  const look = onlyEmojis(button.text) ? "key emoji" : "key";
  if (button.url) {
    const url = safeUrl(button.url);
    return el("a", {
      class: `${look} link`, href: url?.href, target: "_blank", rel: "noopener noreferrer", "data-testid": "link-button",
      onclick: (event) => { if (url && view.onLink(url)) event.preventDefault(); },
    }, button.text);
  }
  return el("button", {
    type: "button", class: button.style ? `${look} ${button.style}` : look, "data-testid": "inline-button",
    "data-callback": button.callback_data,
    onclick: (event) => view.onPress(message, button, event.currentTarget),
  }, button.text);
}

const SEGMENTS = new Intl.Segmenter(undefined, { granularity: "grapheme" });
const EMOJI = /\p{Extended_Pictographic}|\p{Regional_Indicator}|[0-9#*]\uFE0F?\u20E3/u;

export function emojisIn(text) {
  return [...SEGMENTS.segment(text)].map((part) => part.segment).filter((part) => EMOJI.test(part));
}

function onlyEmojis(text) {
  const parts = [...SEGMENTS.segment(text.trim())].map((part) => part.segment);
  return parts.length > 0 && parts.length <= 3 && parts.every((part) => EMOJI.test(part));
}
