// A button that copies a text.

import { element } from "./dom.ts";
import { icon } from "./icons.ts";

const SHOWN_MS = 1200; // that it says "copied"

/** A button that puts what `text` gives on the clipboard, also where the page may not use the clipboard directly. */
export function copyButton(label: string, text: () => string): HTMLButtonElement {
  const button = element("button", { type: "button", class: "sdw-plain sdw-copy", title: label, "aria-label": label }, icon("copy"));
  button.addEventListener("click", async () => {
    const isCopied = await copy(text(), button);
    button.dataset["said"] = isCopied ? "copied" : "not copied";
    setTimeout(() => delete button.dataset["said"], SHOWN_MS);
  });
  return button;
}

async function copy(text: string, beside: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = element("textarea", { class: "sdw-spoken", "aria-hidden": "true" });
    area.value = text;
    beside.after(area);
    area.select();
    const isCopied = document.execCommand("copy");
    area.remove();
    beside.focus();
    return isCopied;
  }
}
