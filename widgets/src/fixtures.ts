// Traces for the tests of the front end, packed the way the Python side packs them.

import { decode, type ColumnPlace, type Kind, type MarkKind, type TraceData } from "./trace_data.ts";

export interface Row {
  readonly lane: number;
  readonly kind: string;
  readonly start: number;
  readonly end?: number;
  readonly facts?: Record<string, unknown>;
}

export const KINDS: readonly Kind[] = [
  { name: "closure", color: "#7a8ca0", level: 0 },
  { name: "read", color: "#56b4e9", level: 1 },
  { name: "compute", color: "#0072b2", level: 1 },
  { name: "down", color: "#d1423f", level: 3 },
];
const glyph = { body: "M0 -7L7 0L0 7Z", sign: "" };
export const MARKS: readonly MarkKind[] = [
  { name: "crash", color: "#c1121f", level: 3, ...glyph },
  { name: "retry", color: "#7b3fa0", level: 2, ...glyph },
  { name: "restart", color: "#1b7f4b", level: 1, ...glyph },
  { name: "place", color: "#8a949e", level: 0, ...glyph },
];

/** A decoded trace; names of rows are their categories. `shift` moves the bytes to an odd address. */
export function traceOf(
  lanes: readonly string[],
  spans: readonly Row[],
  instants: readonly Row[] = [],
  shift = 0,
): TraceData {
  const names = [...KINDS, ...MARKS].map((kind) => kind.name);
  const pack = new Packer();
  pack.text("names", JSON.stringify(names));
  addTable(pack, "span", lanes.length, spans, KINDS, names);
  addTable(pack, "instant", lanes.length, instants, MARKS, names);
  const ends = [...spans, ...instants].map((row) => row.end ?? row.start);
  const header = {
    version: 2,
    lanes,
    kinds: KINDS,
    marks: MARKS,
    first_s: 0,
    last_s: Math.max(0, ...ends),
    facts_left_out: 0,
    not_restarted: 0,
    empty_text: "",
    columns: pack.places,
  };
  const buffer = new Uint8Array(shift + pack.bytes.length);
  buffer.set(pack.bytes, shift);
  return decode(header, new DataView(buffer.buffer, shift));
}

class Packer {
  readonly places: Record<string, ColumnPlace> = {};
  readonly bytes: number[] = [];

  add(name: string, dtype: ColumnPlace["dtype"], array: ArrayBufferView & { readonly length: number }): void {
    this.places[name] = { dtype, offset: this.bytes.length, length: array.length };
    this.bytes.push(...new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
    while (this.bytes.length % 8) this.bytes.push(0);
  }

  text(name: string, value: string): void {
    this.add(name, "utf8", new TextEncoder().encode(value));
  }
}

function addTable(
  pack: Packer,
  prefix: string,
  lanes: number,
  unsorted: readonly Row[],
  kinds: readonly Kind[],
  names: readonly string[],
): void {
  const rows = [...unsorted].sort((a, b) => a.lane - b.lane || a.start - b.start || (b.end ?? 0) - (a.end ?? 0));
  const first = Array.from({ length: lanes + 1 }, (_, lane) => rows.filter((row) => row.lane < lane).length);
  const kind = rows.map((row) => kinds.findIndex((candidate) => candidate.name === row.kind));
  const withFacts = rows.flatMap((row, index) => (row.facts ? [index] : []));
  const texts = withFacts.map((index) => JSON.stringify(rows[index].facts));
  let end = 0;
  pack.add(`${prefix}_lane_first`, "u4", Uint32Array.from(first));
  pack.add(`${prefix}_start`, "f8", Float64Array.from(rows, (row) => row.start));
  pack.add(`${prefix}_duration`, "f4", Float32Array.from(rows, (row) => (row.end ?? row.start) - row.start));
  pack.add(`${prefix}_name`, "u4", Uint32Array.from(rows, (row) => names.indexOf(row.kind)));
  pack.add(`${prefix}_kind`, "u1", Uint8Array.from(kind));
  pack.add(`${prefix}_fact_row`, "u4", Uint32Array.from(withFacts));
  pack.add(`${prefix}_fact_end`, "u4", Uint32Array.from(texts, (text) => (end += text.length)));
  pack.text(`${prefix}_fact_text`, texts.join(""));
}
