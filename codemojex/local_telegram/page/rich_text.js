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
    made.append(text.slice(at, from));
    const inner = entities.slice(index + 1).filter((other) => other.offset < to);
    made.append(wrap(entity, text.slice(from, to), nodes(text, from, to, inner, actions), actions));
    at = to;
  }
  made.append(text.slice(at, end));
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
