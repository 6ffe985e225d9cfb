// A message's text with its entities as DOM nodes. Offsets are UTF-16 units, which is how strings count here.
import { el } from "./elements.js";

const PLAIN = {
  bold: "strong", italic: "em", underline: "u", strikethrough: "s", code: "code", pre: "pre",
  blockquote: "blockquote", expandable_blockquote: "blockquote",
};

export function safeUrl(text) {
  try {
    const url = new URL(/^[a-z]+:/i.test(text) ? text : `https://${text}`);
    return ["http:", "https:", "tg:", "mailto:"].includes(url.protocol) ? url : null;
  } catch {
    return null;
  }
}

// A row of a board: a code of emojis, what it was worth, and a short name before it. Such a row stands on one line; a long
// name stands above it. `--ems` is about how wide the row is, so that the style sheet can make it fit.
const EMOJI = "(?:\\p{Extended_Pictographic}\\uFE0F?\\p{Emoji_Modifier}?(?:\\u200D\\p{Extended_Pictographic}\\uFE0F?\\p{Emoji_Modifier}?)*"
  + "|\\p{Regional_Indicator}{2}|[0-9#*]\\uFE0F?\\u20E3)";
const CODE = `${EMOJI}{3,8}`;
const ROW = new RegExp(`(?<!${EMOJI})${CODE}(?: ${CODE})?(?: \\d{1,3})?(?: ●\\d+ ○\\d+)?(?!${EMOJI})`, "gu");
const ONE = new RegExp(EMOJI, "gu");
const EMOJI_EMS = 1.27;
const LETTER_EMS = 0.58;
const LINE_EMS = 26; // a line that is wider would become too small to read

function ems(text) {
  const emojis = text.match(ONE)?.length ?? 0;
  return emojis * EMOJI_EMS + [...text.replace(ONE, "")].length * LETTER_EMS;
}

function rows(text, lineStart) {
  const made = document.createDocumentFragment();
  let at = 0;
  for (const found of text.matchAll(ROW)) {
    const end = found.index + found[0].length;
    const start = Math.max(text.lastIndexOf("\n", found.index) + 1, at);
    const whole = (start > at || at > 0 || lineStart) && ["\n", undefined].includes(text[end]) && ems(text.slice(start, end)) <= LINE_EMS;
    const from = whole ? start : found.index;
    const row = el("span", { class: "row" }, text.slice(from, end));
    row.style.setProperty("--ems", ems(text.slice(from, end)).toFixed(1));
    made.append(text.slice(at, from), row);
    at = end;
  }
  made.append(text.slice(at));
  return made;
}

// `actions`: onCommand(text), onLink(url) → true when the page handled the link itself.
export function richText(text, entities, actions) {
  const sorted = [...(entities ?? [])].sort((a, b) => a.offset - b.offset || b.length - a.length);
  return nodes(text, 0, text.length, sorted, actions);
}

function nodes(text, start, end, entities, actions) {
  const made = document.createDocumentFragment();
  let at = start;
  for (let index = 0; index < entities.length; index += 1) {
    const entity = entities[index];
    const from = Math.max(entity.offset, at);
    const to = Math.min(entity.offset + entity.length, end);
    if (to <= from) continue;
    made.append(rows(text.slice(at, from), at === 0 || text[at - 1] === "\n"));
    const inner = entities.slice(index + 1).filter((other) => other.offset < to);
    made.append(wrap(entity, text.slice(from, to), nodes(text, from, to, inner, actions), actions));
    at = to;
  }
  made.append(rows(text.slice(at, end), at === 0 || text[at - 1] === "\n"));
  return made;
}

function wrap(entity, text, content, actions) {
  const tag = PLAIN[entity.type];
  if (tag) return el(tag, {}, content);
  switch (entity.type) {
    case "spoiler": {
      const spoiler = el("button", { type: "button", class: "spoiler", "aria-label": "Show the hidden text" }, content);
      spoiler.addEventListener("click", () => {
        spoiler.classList.add("open");
        spoiler.removeAttribute("aria-label");
      });
      return spoiler;
    }
    case "bot_command":
      return el("button", { type: "button", class: "inline-link", onclick: () => actions.onCommand(text) }, content);
    case "text_link":
    case "url": {
      const url = safeUrl(entity.url ?? text);
      if (!url) return content;
      return el("a", {
        href: url.href, target: "_blank", rel: "noopener noreferrer",
        onclick: (event) => { if (actions.onLink(url)) event.preventDefault(); },
      }, content);
    }
    case "mention":
    case "text_mention":
    case "hashtag":
      return el("span", { class: "mention" }, content);
    default:
      return content;
  }
}
