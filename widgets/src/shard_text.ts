// The words on a shard map: names and rows that fit a block, and the facts of the card.

import { formatBytes, formatCount } from "./format.ts";
import { shortenFront } from "./labels.ts";
import type { Block, Shard } from "./shard_layout.ts";
import type { Group } from "./tooltip.ts";

const CHARACTER = 6.1; // pixels, about
const MOST_LISTED = 8;

/** The name of a block, with its rows where the variable is cut and `withRows` is set. */
export function label(block: Block, room: number, withRows = true): string {
  const [first] = block.shards;
  const { length } = block.shards;
  if (length > 1) return shortenTo(`${length} smaller, ${formatBytes(bytes(block))}`, room);
  const cut = withRows && first.num_shards > 1 ? ` · ${rowsOf(first)}` : "";
  return `${shortenTo(first.variable, room - cut.length * CHARACTER)}${cut}`;
}

/** The line below a column for a block that has no room for its name. */
export function note(block: Block, room: number): string {
  const size = block.shards.length > 1 ? "" : ` · ${formatBytes(bytes(block))}`;
  return `${label(block, room - size.length * CHARACTER)}${size}`;
}

/** The second line of a block: rows or shape, and bytes; with less where that has no room, since a number that is cut is another one. */
export function rows(block: Block, room: number): string {
  const [first] = block.shards;
  const size = formatBytes(bytes(block));
  if (block.shards.length > 1) return size;
  const cut = [`${rowsOf(first)} of ${figure(first.shape[axisOf(first)])}`, rowsOf(first), rangeOf(first)];
  const texts = first.num_shards > 1 ? cut : [shapeOf(first), size];
  return [`${texts[0]} · ${size}`, ...texts].find((text) => text.length * CHARACTER <= room) ?? "";
}

/** What the card says about a block. */
export function facts(block: Block): Group[] {
  if (block.shards.length > 1) {
    const some = block.shards.slice(0, MOST_LISTED);
    const listed = some.map((shard) => [shard.variable, formatBytes(shard.size_bytes)] as const);
    const rest = block.shards.length - listed.length;
    const more = rest > 0 ? [["", `and ${rest} more`] as const] : [];
    return [{ title: formatCount(block.shards.length, "smaller shard"), color: "", facts: [...listed, ...more] }];
  }
  const [shard] = block.shards;
  const piece = `${shard.shard + 1} of ${shard.num_shards}`;
  const own = [
    ["kind", shard.kind],
    ["shape", `${shapeOf(shard)} ${shard.dtype}`],
    ...(shard.slot_of ? [["slot of", shard.slot_of] as const] : []),
    ...(shard.num_shards > 1 ? [["shard", piece] as const, [`${wordOf(shard)}s`, rangeOf(shard)] as const] : []),
    ["bytes", `${shard.size_bytes.toLocaleString("en-US")} (${formatBytes(shard.size_bytes)})`],
    ["task", shard.task],
    ...(shard.facts ?? []),
  ] as const;
  return [{ title: shard.variable, color: "", facts: own as Group["facts"] }];
}

/** The colour of a block where colours show a figure: of several shards that of the greatest value. */
export function scaledColor(shards: readonly Shard[]): string | undefined {
  const order = [...shards].sort((a, b) => (b.value ?? -1) - (a.value ?? -1));
  return order[0]?.color;
}

/** Whether two blocks hold shards of one variable. */
export function sameVariable(a: Block, b: Block): boolean {
  return a.shards.some((one) => b.shards.some((two) => isSame(one, two)));
}

function isSame(one: Shard, two: Shard): boolean {
  const [names, slots] = [one.variable === two.variable && one.kind === two.kind, (one.slot_of ?? "") === (two.slot_of ?? "")];
  return names && slots && (one.namesake ?? 0) === (two.namesake ?? 0);
}

export function bytesByKind(shards: readonly Shard[]): Map<string, number> {
  const bytes = new Map<string, number>();
  for (const shard of shards) bytes.set(shard.kind, (bytes.get(shard.kind) ?? 0) + shard.size_bytes);
  return bytes;
}

/** A name cut from the front to about `width` pixels. */
function shortenTo(text: string, width: number): string {
  return shortenFront(text, Math.max(Math.floor(width / CHARACTER), 4));
}

function bytes(block: Block): number {
  return block.shards.reduce((sum, shard) => sum + shard.size_bytes, 0);
}

function rowsOf(shard: Shard): string {
  return `${wordOf(shard)}${shard.row_stop - 1 > shard.row_start ? "s" : ""} ${rangeOf(shard)}`;
}

function rangeOf(shard: Shard): string {
  const last = shard.row_stop - 1;
  return last > shard.row_start ? `${figure(shard.row_start)}–${figure(last)}` : figure(shard.row_start);
}

/** A number as one reads it: 1,500,000. */
function figure(number: number): string {
  return number.toLocaleString("en-US");
}

/** What is counted along the axis that is cut. */
function wordOf(shard: Shard): string {
  return ["row", "column"][axisOf(shard)] ?? `axis ${axisOf(shard)} index`;
}

function axisOf(shard: Shard): number {
  return shard.axis ?? 0;
}

function shapeOf(shard: Shard): string {
  return shard.shape.length ? shard.shape.map(figure).join(" × ") : "scalar";
}
