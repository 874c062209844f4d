// The shard map of very many tasks: one cell per task, its colour by its bytes, with a scale below.
//
// Exact numbers stand in a card, for the pointer and for the keyboard: the arrow keys walk among the cells, one stop for
// the Tab key in all. Rows, colours and the scale come from Python, and are those of the static picture.

import { colorScale } from "./color_scale.ts";
import { element, shape } from "./dom.ts";
import { formatBytes } from "./format.ts";
import type { Heat, HeatCell } from "./shard_header.ts";
import type { Group, Tooltip } from "./tooltip.ts";

const CELL_HEIGHT = 24;
const LABEL_WIDTH = 84;
const MOST_WIDTH = 56;

interface Cell {
  readonly cell: HeatCell;
  readonly row: number;
  readonly column: number;
  readonly node: SVGElement;
}

/** What the card says about a cell. */
export function cellFacts({ task, bytes, color, share, num_shards, largest, figure }: HeatCell): Group[] {
  const part = share === null ? [] : [["share", `${(share * 100).toFixed(2)} %`] as const];
  const rest = num_shards - largest.length;
  const facts = [["bytes", `${bytes.toLocaleString("en-US")} (${formatBytes(bytes)})`] as const, ...part, ["shards", String(num_shards)] as const, ...(figure ? [figure] : [])];
  const named = largest.map(([name, size]) => [name, formatBytes(size)] as const);
  const more = rest > 0 && named.length ? [["", `and ${rest} more`] as const] : [];
  const list = named.length ? [{ title: "largest", color: "", facts: [...named, ...more], isList: true }] : [];
  return [{ title: task, color, facts }, ...list];
}

/** The cell that an arrow key leads to from a row and a column; null where there is none, or for another key. */
export function neighbour(heat: Heat, row: number, column: number, key: string): readonly [number, number] | null {
  const steps: Readonly<Record<string, readonly [number, number]>> = {
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    Home: [0, -column],
    End: [0, (heat.rows[row]?.length ?? 1) - 1 - column],
  };
  const [down, right] = (Object.hasOwn(steps, key) && steps[key]) || [0, 0];
  const cells = heat.rows[row + down];
  if (!cells || (down === 0 && right === 0)) return null;
  const wanted = down === 0 ? column + right : Math.min(column, cells.length - 1);
  return cells[wanted] ? [row + down, wanted] : null;
}

export class HeatMap {
  readonly elements: readonly HTMLElement[];
  private readonly map = element("div", { class: "sdw-heat" });
  private cells: Cell[] = [];
  private width = 0;

  constructor(
    private readonly heat: Heat,
    private readonly root: HTMLElement,
    private readonly tooltip: Tooltip,
  ) {
    this.elements = [this.map, this.scale()];
    this.map.addEventListener("keydown", (event) => this.onKey(event));
    this.map.addEventListener("pointerleave", () => this.ask(null));
  }

  /** Draws the cells as wide as there is room for. */
  readonly draw = (): void => {
    const width = Math.floor(Math.min((this.root.clientWidth - LABEL_WIDTH) / this.heat.columns, MOST_WIDTH));
    if (width === this.width || this.root.clientWidth === 0) return;
    this.width = Math.max(width, 4);
    this.cells = this.heat.rows.flatMap((cells, row) => cells.map((cell, column) => this.cell(cell, row, column)));
    const labels = this.heat.rows.map((cells, row) =>
      shape("text", { x: LABEL_WIDTH - 8, y: (row + 0.5) * CELL_HEIGHT, "text-anchor": "end", "dominant-baseline": "central" }, cells[0].task),
    );
    const size = { width: LABEL_WIDTH + this.width * this.heat.columns + 2, height: this.heat.rows.length * CELL_HEIGHT + 2 };
    this.map.replaceChildren(shape("svg", size, ...labels, ...this.cells.map(({ node }) => node)));
    this.cells[0]?.node.setAttribute("tabindex", "0");
  };

  private cell(cell: HeatCell, row: number, column: number): Cell {
    const spoken = cellFacts(cell).filter(({ isList }) => !isList).flatMap(({ title, facts }) => [title, ...facts.map((fact) => fact.join(" "))]);
    const box = { x: LABEL_WIDTH + column * this.width + 1, y: row * CELL_HEIGHT + 1, width: this.width - 2, height: CELL_HEIGHT - 2 };
    const node = shape("rect", { ...box, fill: cell.color, class: "sdw-cell", role: "img", tabindex: -1, "aria-label": spoken.join(", ") });
    const place = { cell, row, column, node };
    node.addEventListener("pointermove", (event) => this.ask(place, event.clientX, event.clientY));
    node.addEventListener("focus", () => this.askFocused(place));
    node.addEventListener("blur", () => this.ask(null));
    return place;
  }

  private scale(): HTMLElement {
    const { ramp, greatest, scale } = this.heat;
    return colorScale(scale ?? { title: "", ramp, ends: ["0 B", `${formatBytes(greatest)} of a task`], unknown: null });
  }

  private askFocused(place: Cell): void {
    for (const other of this.cells) other.node.setAttribute("tabindex", other === place ? "0" : "-1");
    const box = place.node.getBoundingClientRect();
    this.ask(place, box.left + box.width / 2, box.top + box.height / 2);
  }

  private ask(place: Cell | null, x = 0, y = 0): void {
    for (const { node } of this.cells) node.classList.toggle("sdw-asked", node === place?.node);
    if (!place) return this.tooltip.hide();
    const frame = this.root.getBoundingClientRect();
    this.tooltip.show(cellFacts(place.cell), x - frame.left, y - frame.top);
  }

  private onKey(event: KeyboardEvent): void {
    const at = this.cells.find(({ node }) => node === rootOf(node).activeElement);
    const target = at && neighbour(this.heat, at.row, at.column, event.key);
    if (!target) return;
    event.preventDefault();
    event.stopPropagation();
    this.cells.find(({ row, column }) => row === target[0] && column === target[1])?.node.focus();
  }
}

/** The document, or the shadow tree that a widget lives in. */
function rootOf(node: Node): Document | ShadowRoot {
  return node.getRootNode() as Document | ShadowRoot;
}
