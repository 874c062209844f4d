// sw.ShardMap: which task holds which rows of which variable, and how many bytes that makes.
//
// Pointing at a block dims everything but the shards of the same variable. Blocks are shapes in SVG with a name for
// screen readers; the arrow keys walk among them, one stop for the Tab key in all.

import { element, shape } from "./dom.ts";
import { formatBytes, formatCount } from "./format.ts";
import type { Model, RenderContext } from "./model.ts";
import { HEIGHT, imbalance, layOut, type Block, type Column, type Shard } from "./shard_layout.ts";
import { bytesByKind, facts, label, rows, sameVariable } from "./shard_text.ts";
import { inkOn } from "./theme.ts";
import { Tooltip } from "./tooltip.ts";

interface ShardHeader {
  readonly tasks: readonly string[];
  readonly kinds: readonly { readonly name: string; readonly color: string }[];
  readonly shards: readonly Shard[];
}

const LEAST_WIDTH = 150;
const MOST_WIDTH = 380;
const COLUMN_GAP = 14;
const TWO_LINES = 36; // pixels of height from which a block has a second line

class ShardMap {
  readonly root: HTMLElement;
  private readonly header: ShardHeader;
  private readonly columns: readonly Column[];
  private readonly places = element("div", { class: "sdw-columns" });
  private readonly tooltip = new Tooltip();
  private readonly blocks: { readonly block: Block; readonly node: SVGElement; readonly column: number }[] = [];
  private width = 0;

  constructor(model: Model) {
    this.header = model.get("header") as ShardHeader;
    this.columns = layOut(this.header.tasks, this.header.shards);
    this.root = element(
      "div",
      { class: "sdw sdw-shard-map", role: "group", "aria-label": "Shard map", "data-lm-suppress-shortcuts": "true" },
      this.balance(),
      this.places,
      this.legend(),
      this.tooltip.element,
    );
    this.places.addEventListener("keydown", (event) => this.onKey(event));
    this.places.addEventListener("pointerleave", () => this.ask(null));
  }

  /** Draws the columns as wide as there is room for. */
  readonly draw = (): void => {
    const count = Math.max(this.columns.length, 1);
    const room = (this.root.clientWidth - 4 - (count - 1) * COLUMN_GAP) / count;
    const width = Math.floor(Math.min(Math.max(room, LEAST_WIDTH), MOST_WIDTH));
    if (width === this.width || this.root.clientWidth === 0) return;
    this.width = width;
    this.blocks.length = 0;
    this.places.replaceChildren(...this.columns.map((column, index) => this.column(column, index)));
    this.blocks[0]?.node.setAttribute("tabindex", "0");
  };

  private balance(): HTMLElement {
    const { shards, tasks } = this.header;
    const bytes = this.columns.reduce((sum, column) => sum + column.bytes, 0);
    const names = new Set(shards.map((shard) => `${shard.kind} ${shard.variable}`));
    const pieces = `${formatCount(names.size, "variable")}, ${formatCount(shards.length, "shard")}`;
    const text = ` in ${pieces}, on ${formatCount(tasks.length, "task")}`;
    const uneven = `; the fullest task holds ${imbalance(this.columns).toFixed(2)} times the mean`;
    const summary = [element("strong", {}, formatBytes(bytes)), text, tasks.length > 1 ? uneven : ""];
    return element("p", { class: "sdw-balance" }, ...(shards.length ? summary : ["No variables yet."]));
  }

  private legend(): HTMLElement {
    const used = bytesByKind(this.header.shards);
    const items = this.header.kinds
      .filter(({ name }) => used.has(name))
      .map(({ name, color }) =>
        element(
          "li",
          {},
          element("span", { class: "sdw-swatch", style: `background:${color}` }),
          `${name} ${formatBytes(used.get(name) ?? 0)}`,
        ),
      );
    return element("ul", { class: "sdw-kinds", "aria-label": "Legend" }, ...items);
  }

  private column(column: Column, index: number): HTMLElement {
    const size = `${formatBytes(column.bytes)} · ${(column.share * 100).toFixed(0)} %`;
    const held = bytesByKind(column.blocks.flatMap((block) => block.shards));
    const greatest = column.fill > 0 ? column.bytes / column.fill : 1;
    const parts = this.header.kinds.map(({ name, color }) =>
      element("i", { style: `width:${((held.get(name) ?? 0) / greatest) * 100}%;background:${color}` }),
    );
    const nodes = column.blocks.map((block) => this.block(block, index));
    const drawing = shape("svg", { width: this.width, height: Math.max(column.height, 1) }, ...nodes);
    return element(
      "div",
      { class: "sdw-column", style: `width:${this.width}px`, role: "group", "aria-label": `${column.task}, ${size}` },
      element("h4", {}, column.task, element("span", {}, size)),
      element("div", { class: "sdw-meter", "aria-hidden": "true" }, ...parts),
      drawing,
    );
  }

  private block(block: Block, column: number): SVGElement {
    const first = block.shards[0];
    const color = this.header.kinds.find(({ name }) => name === first.kind)?.color ?? "#7f8790";
    const spoken = facts(block).flatMap(({ title, facts }) => [title, ...facts.map((fact) => fact.join(" "))]);
    const node = shape(
      "g",
      { class: "sdw-block", role: "img", tabindex: -1, "aria-label": spoken.join(", ") },
      shape("rect", { y: block.top, width: this.width, height: block.height, rx: 3, fill: color }),
      ...this.texts(block, inkOn(color)),
    );
    const place = { block, node, column };
    node.addEventListener("pointermove", (event) => this.ask(place, event.clientX, event.clientY));
    node.addEventListener("focus", () => this.askFocused(place));
    node.addEventListener("blur", () => this.ask(null));
    this.blocks.push(place);
    return node;
  }

  private texts(block: Block, fill: string): SVGElement[] {
    const look = { x: 8, fill, "dominant-baseline": "central" };
    const line = (y: number, text: string, small = false): SVGElement =>
      shape("text", { ...look, y: block.top + y, class: small && "sdw-small" }, text);
    const room = this.width - 16;
    if (block.height < TWO_LINES) return [line(block.height / 2, label(block, room))];
    const middle = Math.min(block.height / 2, HEIGHT / 2);
    return [line(middle - 8, label(block, room, false)), line(middle + 8, rows(block, room), true)];
  }

  private askFocused(place: (typeof this.blocks)[number]): void {
    for (const other of this.blocks) other.node.setAttribute("tabindex", other === place ? "0" : "-1");
    const box = place.node.getBoundingClientRect();
    this.ask(place, box.left + box.width / 2, box.top + box.height / 2);
  }

  /** Shows the facts of a block and its siblings; null ends that. */
  private ask(place: (typeof this.blocks)[number] | null, x = 0, y = 0): void {
    this.places.classList.toggle("sdw-asking", place !== null);
    for (const { block, node } of this.blocks) {
      node.classList.toggle("sdw-asked", block === place?.block);
      node.classList.toggle("sdw-sibling", place !== null && sameVariable(block, place.block));
    }
    if (!place) return this.tooltip.hide();
    const frame = this.root.getBoundingClientRect();
    this.tooltip.show(facts(place.block), x - frame.left, y - frame.top);
  }

  private onKey(event: KeyboardEvent): void {
    const at = this.blocks.findIndex(({ node }) => node === document.activeElement);
    if (at < 0) return;
    const column = this.blocks[at].column;
    const firstOf = (wanted: number): number => this.blocks.findIndex((place) => place.column === wanted);
    const [right, left] = [firstOf(column + 1), firstOf(column - 1)];
    const targets: Readonly<Record<string, number>> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      ArrowRight: right,
      ArrowLeft: left,
    };
    const target = Object.hasOwn(targets, event.key) ? targets[event.key] : undefined;
    if (target === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    (this.blocks[target]?.node as SVGElement | undefined)?.focus();
  }
}

function render({ model, el }: RenderContext): () => void {
  let sizes: ResizeObserver | null = null;
  const start = (): void => {
    sizes?.disconnect();
    const map = new ShardMap(model);
    el.replaceChildren(map.root);
    sizes = new ResizeObserver(map.draw);
    sizes.observe(map.root);
    map.draw();
  };
  start();
  model.on("change:header", start);
  return () => {
    model.off("change:header", start);
    sizes?.disconnect();
  };
}

export default { render };
