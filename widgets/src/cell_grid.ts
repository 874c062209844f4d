// Very many tasks: one cell for each, with its colour, its shape and, where there is room, its letter. A canvas, since a
// thousand shapes that change twenty times a second are too many for a document.

import { resizeFor } from "./canvas.ts";
import { element } from "./dom.ts";
import type { Layout } from "./lab_types.ts";
import { colorOf, outline, styleOf } from "./task_states.ts";
import { inkOn, type Colors } from "./theme.ts";

const MOST_CELL = 26; // pixels
const LEAST_LETTER = 11;

export class CellGrid {
  readonly canvas = element("canvas", { class: "sdw-grid", tabindex: 0, role: "application", "aria-roledescription": "grid of tasks" });
  columns = 1;
  private cell = MOST_CELL;

  constructor(private readonly layout: Layout) {
    this.canvas.setAttribute("aria-label", `${layout.tasks.length} tasks; arrow keys choose one, Enter shows it`);
  }

  /** Gives the grid its height for a width. */
  fit(width: number): number {
    const count = this.layout.tasks.length;
    this.cell = Math.max(6, Math.min(MOST_CELL, Math.floor(Math.sqrt((width * Math.min(width * 0.6, 420)) / count))));
    this.columns = Math.max(1, Math.floor(width / this.cell));
    return Math.ceil(count / this.columns) * this.cell + 2;
  }

  draw(states: readonly string[], chosen: number, colors: Colors, ratio: number): void {
    const { context, width, height } = resizeFor(this.canvas, ratio);
    const { cell } = this;
    context.clearRect(0, 0, width, height);
    context.font = `600 ${Math.round(cell * 0.5)}px ${colors.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const paths = new Map<string, Path2D>();
    this.layout.tasks.forEach((_, task) => {
      const style = styleOf(states[task]);
      const color = colorOf(style, this.layout);
      const [x, y] = this.middle(task);
      const path = paths.get(style.shape) ?? new Path2D(outline(style.shape === "circle" ? "square" : style.shape, cell * 0.46));
      paths.set(style.shape, path);
      context.save();
      context.translate(x, y);
      context.fillStyle = style.look === "filled" ? color : colors.lane;
      context.fill(path);
      if (style.look !== "filled") {
        context.strokeStyle = color;
        context.setLineDash(style.look === "dashed" ? [2, 2] : []);
        context.stroke(path);
      }
      if (cell >= LEAST_LETTER) {
        context.fillStyle = style.look === "filled" ? inkOn(color) : colors.softText;
        context.fillText(style.letter, 0, 0.5);
      }
      context.restore();
    });
    if (chosen >= 0) this.ring(context, chosen, colors.focus);
  }

  taskAt(x: number, y: number): number {
    const column = Math.floor(x / this.cell);
    const task = Math.floor(y / this.cell) * this.columns + column;
    return column < this.columns && task >= 0 && task < this.layout.tasks.length ? task : -1;
  }

  middle(task: number): readonly [number, number] {
    return [((task % this.columns) + 0.5) * this.cell, (Math.floor(task / this.columns) + 0.5) * this.cell];
  }

  private ring(context: CanvasRenderingContext2D, task: number, color: string): void {
    const [x, y] = this.middle(task);
    context.strokeStyle = color;
    context.lineWidth = 2;
    context.strokeRect(x - this.cell / 2 + 1, y - this.cell / 2 + 1, this.cell - 2, this.cell - 2);
  }
}
