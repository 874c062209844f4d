// The matrix of a stepper in SVG: what every chunk holds, and the arrows of the step.
//
// All parts of one colour are one path, so that thousands of chunks cost few nodes. With more than MOST_SEGMENTS ranks a
// chunk shows how many contributions it holds, not whose: segments would be thinner than a pixel.

import { shape } from "./dom.ts";
import type { Chunk, StepperData } from "./stepper_data.ts";
import { arrowsOf, HEAD_HEIGHT, LABEL_WIDTH, leftOf, pointOn, topOf, type Arrow, type Layout } from "./stepper_layout.ts";
import { label } from "./stepper_text.ts";

export interface Scene {
  readonly data: StepperData;
  readonly layout: Layout;
  readonly shown: number; // moment whose contents are drawn
  readonly moment: number; // moment whose arrows are drawn
  readonly rank: number; // that is followed, or -1
}

/** A piece of a chunk: what one colour fills. Places are parts of the chunk's width, 0 to 1. */
export interface Piece {
  readonly from: number;
  readonly to: number;
  readonly color: string;
}

export const COMPLETE = "var(--sdw-complete)";
const LEVEL = "var(--sdw-level)";
export const MOST_SEGMENTS = 16;
export const SIGNS = { adds: "M-3.5 0h7M0 -3.5v7", replaces: "M-3.5 -1.8h7M-3.5 1.8h7" } as const;
const MOST_ARROWS = 240;
const MOST_BADGES = 80;
const BAR = 0.6; // of the height of a chunk with words under the bar

/** What fills a chunk. */
export function pieces(data: StepperData, chunk: Chunk): Piece[] {
  const { sums, num_ranks, colors } = data.header;
  if (sums && chunk.complete) return [{ from: 0, to: 1, color: COMPLETE }];
  const held = chunk.contributors;
  if (!sums) return chunk.needed ? held.map((rank, i) => ({ from: i / held.length, to: (i + 1) / held.length, color: colors[rank] })) : [];
  if (num_ranks > MOST_SEGMENTS) return [{ from: 0, to: held.length / num_ranks, color: LEVEL }];
  return held.map((rank) => ({ from: rank / num_ranks, to: (rank + 1) / num_ranks, color: colors[rank] }));
}

/** The arrows that are drawn: those of the followed rank, or all where they do not hide everything. */
export function visibleArrows({ data, layout, moment, rank }: Scene): Arrow[] {
  const { transfers } = data.header.steps[moment];
  const arrows = arrowsOf(layout, transfers);
  return arrows.length <= MOST_ARROWS ? arrows : arrows.filter(({ transfer }) => touches(transfer, rank));
}

/** The whole matrix. */
export function paint(scene: Scene): SVGElement {
  const { layout, data, shown, moment } = scene;
  const chunks = chunksOf(scene);
  const svg = shape("svg", { width: layout.width, height: layout.height, "aria-hidden": "true" });
  svg.append(...followed(scene), ...heads(scene), ...cells(scene, chunks));
  if (shown === moment) svg.append(shape("path", { class: "sdw-arrived", d: arrivals(scene) }));
  if (layout.words) {
    for (const placed of chunks) svg.append(...words(layout, placed, label(data, placed.content), data.header.sums));
  }
  svg.append(...arrowNodes(scene));
  return svg;
}

/** Small copies of what the sources sent, one for each arrow; `move` puts them at a part of their way. */
export function tokens(scene: Scene): { readonly node: SVGElement; move(part: number): void } {
  const { data, layout, moment } = scene;
  const [width, height] = [Math.min(Math.max(layout.cellWidth * 0.5, 8), 44), Math.max(layout.cellHeight * 0.42, 5)];
  const movers = visibleArrows(scene).map((arrow) => {
    const content = data.chunk(moment - 1, arrow.transfer.source, arrow.chunk);
    const parts = pieces(data, content).map(({ from, to, color }) =>
      shape("rect", { x: from * width, width: (to - from) * width, height, style: `fill:${color}` }),
    );
    const frame = shape("rect", { width, height, rx: 2, class: "sdw-token" });
    const edge = shape("rect", { width, height, rx: 2, class: "sdw-token-edge" });
    return { arrow, node: shape("g", {}, frame, ...parts, edge) };
  });
  const move = (part: number): void => {
    for (const { arrow, node } of movers) {
      const [x, y] = pointOn(arrow, part);
      node.setAttribute("transform", `translate(${x - width / 2} ${y - height / 2})`);
    }
  };
  move(0);
  return { node: shape("g", { class: "sdw-tokens" }, ...movers.map(({ node }) => node)), move };
}

interface Placed {
  readonly rank: number;
  readonly chunk: number;
  readonly content: Chunk;
}

function chunksOf({ data, shown }: Scene): Placed[] {
  const { num_ranks, num_chunks } = data.header;
  return Array.from({ length: num_ranks * num_chunks }, (_, index) => {
    const [rank, chunk] = [Math.floor(index / num_chunks), index % num_chunks];
    return { rank, chunk, content: data.chunk(shown, rank, chunk) };
  });
}

function touches({ source, target }: { readonly source: number; readonly target: number }, rank: number): boolean {
  return source === rank || target === rank;
}

/** A pale band behind the row of the rank that is followed. */
function followed({ layout, rank }: Scene): SVGElement[] {
  if (rank < 0) return [];
  const y = HEAD_HEIGHT + rank * layout.rowPitch;
  return [shape("rect", { class: "sdw-followed", x: 0, y, width: layout.width, height: layout.rowPitch, rx: 4 })];
}

function heads(scene: Scene): SVGElement[] {
  return [...rowHeads(scene), ...columnHeads(scene)];
}

function rowHeads({ data, layout, rank }: Scene): SVGElement[] {
  const { sums, num_ranks, colors } = data.header;
  const withColor = !sums || num_ranks <= MOST_SEGMENTS;
  const every = Math.ceil(14 / layout.rowPitch);
  return Array.from({ length: num_ranks }, (_, row) => row)
    .filter((row) => row % every === 0)
    .flatMap((row) => {
      const y = topOf(layout, row) + layout.cellHeight / 2;
      const swatch = shape("rect", { x: 2, y: y - 5, width: 10, height: 10, rx: 2, style: `fill:${colors[row]}` });
      const look = row === rank ? "sdw-head sdw-current" : "sdw-head";
      return [...(withColor ? [swatch] : []), shape("text", { x: 18, y, class: look }, `rank ${row}`)];
    });
}

function columnHeads({ data, layout }: Scene): SVGElement[] {
  const { num_chunks } = data.header;
  const narrow = layout.cellWidth < 52;
  const y = HEAD_HEIGHT / 2 - 1;
  const across = Math.ceil((narrow ? 24 : 50) / layout.columnPitch);
  const columns = Array.from({ length: num_chunks }, (_, chunk) => chunk)
    .filter((chunk) => chunk % across === 0)
    .map((chunk) => {
      const x = leftOf(layout, chunk) + layout.cellWidth / 2;
      return shape("text", { x, y, class: "sdw-head sdw-middle" }, narrow ? String(chunk) : `chunk ${chunk}`);
    });
  const corner = shape("text", { x: LABEL_WIDTH - 8, y, class: "sdw-head sdw-end" }, "chunk");
  return narrow ? [corner, ...columns] : columns;
}

/** Paths for the empty chunks and for every colour, once for what is needed and once, pale, for what is not. */
function cells({ data, layout }: Scene, chunks: readonly Placed[]): SVGElement[] {
  const paths = new Map<string, { color: string; pale: boolean; d: string[] }>();
  const add = (color: string, pale: boolean, d: string): void => {
    const key = `${color} ${pale}`;
    if (!paths.has(key)) paths.set(key, { color, pale, d: [] });
    paths.get(key)?.d.push(d);
  };
  const { cellWidth, cellHeight, words: withWords } = layout;
  for (const { rank, chunk, content } of chunks) {
    const [left, top] = [leftOf(layout, chunk), topOf(layout, rank)];
    const whole = (data.header.sums && content.complete) || !withWords;
    for (const { from, to, color } of pieces(data, content)) {
      const height = whole ? cellHeight : Math.round(cellHeight * BAR);
      add(color, !content.needed, box(left + from * cellWidth, top, (to - from) * cellWidth, height));
    }
  }
  const empty = chunks.map(({ rank, chunk }) => box(leftOf(layout, chunk), topOf(layout, rank), cellWidth, cellHeight)).join("");
  const filled = [...paths.values()].map(({ color, pale, d }) =>
    shape("path", { d: d.join(""), style: `fill:${color}`, class: pale && "sdw-pale" }),
  );
  return [shape("path", { class: "sdw-empty", d: empty }), ...filled];
}

function words(layout: Layout, { rank, chunk, content }: Placed, text: string, sums: boolean): SVGElement[] {
  const whole = sums && content.complete;
  const y = topOf(layout, rank) + layout.cellHeight * (whole ? 0.5 : (1 + BAR) / 2);
  const kind = whole ? "sdw-word sdw-whole" : content.needed ? "sdw-word" : "sdw-word sdw-past";
  return text ? [shape("text", { x: leftOf(layout, chunk) + layout.cellWidth / 2, y, class: kind }, text)] : [];
}

function arrivals({ data, layout, moment }: Scene): string {
  const { transfers } = data.header.steps[moment];
  const places = transfers.flatMap(({ target, chunks }) => chunks.map((chunk) => [leftOf(layout, chunk), topOf(layout, target)]));
  return places.map(([x, y]) => box(x, y, layout.cellWidth, layout.cellHeight)).join("");
}

function arrowNodes(scene: Scene): SVGElement[] {
  const arrows = visibleArrows(scene);
  const kinds = [true, false].flatMap((adds) => [true, false].map((dim) => ({ adds, dim })));
  const isDim = (arrow: Arrow): boolean => scene.rank >= 0 && !touches(arrow.transfer, scene.rank);
  return kinds.flatMap(({ adds, dim }) => {
    const some = arrows.filter((arrow) => arrow.transfer.adds === adds && isDim(arrow) === dim);
    if (some.length === 0) return [];
    const line = shape("path", { class: adds ? "sdw-arrow" : "sdw-arrow sdw-replaces", d: some.map(curve).join("") });
    const tips = shape("path", { class: "sdw-tip", d: some.map(tip).join("") });
    const badges = scene.layout.words && arrows.length <= MOST_BADGES ? some.map((arrow) => badge(arrow, adds)) : [];
    return [shape("g", { class: dim && "sdw-dim" }, line, tips, ...badges)];
  });
}

function curve({ points: p }: Arrow): string {
  return `M${p[0]} ${p[1]}C${p[2]} ${p[3]} ${p[4]} ${p[5]} ${p[6]} ${p[7]}`;
}

function tip({ points: p, side }: Arrow): string {
  return `M${p[6] - side * 5} ${p[7]}l${side * 7} -4v8z`;
}

function badge(arrow: Arrow, adds: boolean): SVGElement {
  const [x, y] = pointOn(arrow, 0.5);
  const sign = shape("path", { d: adds ? SIGNS.adds : SIGNS.replaces, class: "sdw-sign" });
  const parts = [shape("circle", { r: 6.5, class: "sdw-badge" }), sign];
  return shape("g", { transform: `translate(${x} ${y})` }, ...parts);
}

function box(x: number, y: number, width: number, height: number): string {
  return `M${x.toFixed(1)} ${y.toFixed(1)}h${width.toFixed(2)}v${height.toFixed(1)}h${(-width).toFixed(2)}z`;
}
