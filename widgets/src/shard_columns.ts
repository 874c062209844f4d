// The shard map of up to some dozen tasks: one column per task, one block per shard.
//
// Areas are bytes, everywhere. A block that has no room for its name is named in a line below its column.
// Pointing at a block or at such a line dims everything but the shards of the same variable. Blocks are shapes in SVG with a name for
// screen readers; the arrow keys walk among them, one stop for the Tab key in all.

import { colorScale } from "./color_scale.ts";
import { element, shape } from "./dom.ts";
import { formatBytes } from "./format.ts";
import type { ShardHeader } from "./shard_header.ts";
import { HEIGHT, layOut, type Block, type Column } from "./shard_layout.ts";
import { bytesByKind, facts, label, note, rows, sameVariable, scaledColor } from "./shard_text.ts";
import { inkOn } from "./theme.ts";
import type { Tooltip } from "./tooltip.ts";

const LEAST_WIDTH = 150;
const MOST_WIDTH = 380;
const COLUMN_GAP = 14;
const ONE_LINE = 15; // pixels of height from which a block has its name inside
const TWO_LINES = 36; // and from which it has a second line
const OUTLINE = 6; // and from which it is set apart from its neighbours
const MOST_NOTES = 4;

interface Place {
  readonly block: Block;
  readonly node: SVGElement;
  readonly column: number;
}

export class ShardColumns {
  readonly elements: readonly HTMLElement[];
  private readonly columns: readonly Column[];
  private readonly places = element("div", { class: "sdw-columns" });
  private readonly blocks: Place[] = [];
  private width = 0;

  constructor(
    private readonly header: ShardHeader,
    private readonly root: HTMLElement,
    private readonly tooltip: Tooltip,
  ) {
    this.columns = layOut(header.tasks, header.balanced, header.shards);
    this.places.classList.toggle("sdw-scaled", header.scale !== undefined);
    this.elements = [this.places, header.scale ? colorScale(header.scale) : this.legend()];
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
    const share = column.share === null ? "" : ` · ${(column.share * 100).toFixed(0)} %`;
    const size = formatBytes(column.bytes) + share;
    const places = column.blocks.map((block) => this.block(block, index));
    const nodes = places.map(({ node }) => node);
    const unnamed = places.filter(({ block }) => block.height < ONE_LINE);
    return element(
      "div",
      { class: "sdw-column", style: `width:${this.width}px`, role: "group", "aria-label": `${column.task}, ${size}` },
      element("h4", {}, column.task, element("span", {}, size)),
      shape("svg", { width: this.width, height: Math.max(column.height, 1) }, ...nodes),
      ...this.notes(unnamed),
    );
  }

  /** Names of blocks without room for them; for the eye only, since every block has its name for screen readers. */
  private notes(places: readonly Place[]): HTMLElement[] {
    const listed = places.length > MOST_NOTES ? places.slice(0, MOST_NOTES - 1) : places;
    const lines = listed.map((place) => {
      const swatch = element("span", { class: "sdw-swatch", style: `background:${this.color(place.block)}` });
      const line = element("p", { class: "sdw-note", "aria-hidden": "true" }, swatch, note(place.block, this.width - 16));
      line.addEventListener("pointermove", (event) => this.ask(place, event.clientX, event.clientY));
      return line;
    });
    const rest = places.slice(listed.length).flatMap(({ block }) => block.shards);
    const more = `and ${rest.length} more, ${formatBytes(rest.reduce((sum, shard) => sum + shard.size_bytes, 0))}`;
    return rest.length ? [...lines, element("p", { class: "sdw-note", "aria-hidden": "true" }, more)] : lines;
  }

  private color({ shards }: Block): string {
    const scaled = scaledColor(shards);
    if (scaled) return scaled;
    const kind = shards.every((shard) => shard.kind === shards[0].kind) ? shards[0].kind : "";
    return this.header.kinds.find(({ name }) => name === kind)?.color ?? "#7f8790";
  }

  private block(block: Block, column: number): Place {
    const color = this.color(block);
    const spoken = facts(block).flatMap(({ title, facts }) => [title, ...facts.map((fact) => fact.join(" "))]);
    const node = shape(
      "g",
      { class: `sdw-block${block.height >= OUTLINE ? " sdw-apart" : ""}`, role: "img", tabindex: -1, "aria-label": spoken.join(", ") },
      shape("rect", { y: block.top, width: this.width, height: block.height, fill: color }),
      ...this.texts(block, inkOn(color)),
    );
    const place = { block, node, column };
    node.addEventListener("pointermove", (event) => this.ask(place, event.clientX, event.clientY));
    node.addEventListener("focus", () => this.askFocused(place));
    node.addEventListener("blur", () => this.ask(null));
    this.blocks.push(place);
    return place;
  }

  private texts(block: Block, fill: string): SVGElement[] {
    const look = { x: 8, fill, "dominant-baseline": "central" };
    const line = (y: number, text: string, small = false): SVGElement =>
      shape("text", { ...look, y: block.top + y, class: small && "sdw-small" }, text);
    const room = this.width - 16;
    if (block.height < ONE_LINE) return [];
    if (block.height < TWO_LINES) return [line(block.height / 2, label(block, room))];
    const middle = Math.min(block.height / 2, HEIGHT / 2);
    return [line(middle - 8, label(block, room, false)), line(middle + 8, rows(block, room), true)];
  }

  private askFocused(place: Place): void {
    for (const other of this.blocks) other.node.setAttribute("tabindex", other === place ? "0" : "-1");
    const box = place.node.getBoundingClientRect();
    this.ask(place, box.left + box.width / 2, box.top + box.height / 2);
  }

  /** Shows the facts of a block and its siblings; null ends that. */
  private ask(place: Place | null, x = 0, y = 0): void {
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
