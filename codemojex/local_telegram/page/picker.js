// The emoji picker and the command menu above the typing box.
import { el, walk } from "./elements.js";
import { emojisIn } from "./message.js";

const DEFAULT = emojisIn(
  "🍎🍋🍇🍓🍉🍒🍕🍩🌮🍪🥕🌶️🐶🐱🦊🐼🐸🐵🐙🦄🐝🦋🐢🐳🚀🚲🚗✈️⚓🎈🎲🎯🎸🎧🎁🏆⚽🏀🎾🎳🔥⚡🌈🌙⭐☀️❄️🌵🌻🍀🌊🌍💎🔑🔔💡🧩🎩👑👻🤖👍👏😀😂😎🤔😱🥳😴❤️",
);
const NEAR = 24;
const MARKS = new Set(emojisIn("🟩🟨⬜⬛🟥🟦🟧🟪✅❌➕➖⌫🗑️🔄⏱️⏳🏁🔒🔓▶️⏹️ℹ️✖️"));

// Emojis of the newest bot messages of the chat come first: in a game they are its palette. Three or more in a row and
// buttons of one emoji are what a person chooses from; an emoji alone before a word is decoration.
export function paletteOf(messages, botId) {
  const found = new Set();
  for (const message of messages.filter((m) => m.from.id === botId).slice(-8).reverse()) {
    const labels = (message.reply_markup?.inline_keyboard ?? []).flat().map((button) => button.text);
    const keys = labels.filter((label) => emojisIn(label).join("") === label);
    const rows = (message.text ?? "").split(/\s+/).filter((word) => emojisIn(word).length > 2);
    for (const emoji of emojisIn([...rows, ...keys].join(" "))) {
      if (!MARKS.has(emoji)) found.add(emoji);
      if (found.size >= NEAR) return [...found];
    }
  }
  return [...found];
}

export function emojiPicker(near, onPick) {
  const panel = el("div", { class: "popover picker", role: "group", "aria-label": "Emojis", "data-testid": "emoji-picker" });
  const grid = (title, emojis) => {
    const keys = emojis.map((emoji) => el("button", {
      type: "button", class: "emoji-key", "data-testid": "emoji", "data-emoji": emoji, "aria-label": emoji,
      onclick: () => onPick(emoji),
    }, emoji));
    panel.append(el("h3", {}, title), el("div", { class: "emoji-grid" }, ...keys));
  };
  if (near.length) grid("In this chat", near);
  grid("All", DEFAULT);
  walk(panel, () => Math.max(1, Math.floor((panel.clientWidth - 16) / 40)));
  return panel;
}

export function commandMenu(commands, onPick) {
  const items = commands.map((item) => el("button", {
    type: "button", class: "command", "data-testid": "command", "data-command": item.command,
    onclick: () => onPick(item.command),
  }, el("b", {}, `/${item.command}`), el("span", {}, item.description)));
  const panel = el("div", { class: "popover menu", role: "group", "aria-label": "Commands", "data-testid": "command-menu" });
  panel.append(...(items.length ? items : [el("p", {}, "The bot has no commands here.")]));
  walk(panel);
  return panel;
}
