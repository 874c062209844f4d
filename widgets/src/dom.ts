// Building elements without markup text: nothing that comes from a trace is ever parsed as HTML.

export type Attributes = Readonly<Record<string, string | number | boolean>>;

/** An element with attributes (`false` leaves one out) and children. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  assign(made, attributes);
  made.append(...children);
  return made;
}

let svgSpace: string | null = null;

/** The same for a shape in SVG; its name space is asked of the browser's parser. */
export function shape(tag: string, attributes: Attributes = {}, ...children: (Node | string)[]): SVGElement {
  if (svgSpace === null) {
    const template = document.createElement("template");
    template.innerHTML = "<svg></svg>";
    svgSpace = template.content.firstElementChild?.namespaceURI ?? "";
  }
  const made = document.createElementNS(svgSpace, tag) as SVGElement;
  assign(made, attributes);
  made.append(...children);
  return made;
}

function assign(target: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) target.setAttribute(name, value === true ? "" : String(value));
  }
}
