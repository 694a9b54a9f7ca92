// Functions of the pages with scripts of their own.

/** Decode data that is embedded in the page. */
async function unpack(element) {
  const bytes = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return JSON.parse(await new Response(stream).text());
}

/** Escape control and format characters, which could change or reorder the text around them. */
function visible(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

/** Create an element with children; strings become text, never markup. */
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "onclick") made.addEventListener("click", value);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Pieces of a text, of which those in backticks become code. */
function prose(text) {
  return visible(text).split(/``(.+?)``|`(.+?)`/).map((piece, at) => (at % 3 && piece ? element("code", {}, piece) : piece)).filter(Boolean);
}
