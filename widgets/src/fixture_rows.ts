// Rows for tests and benchmarks, packed as the kernel packs them.

import { NO_CAUSE, type RowsMessage } from "./rows_message.ts";
import type { ColumnPlace } from "./trace_data.ts";

/** A record: what happened where; `end` makes it a span, `value` a counter; `staleness` is that of an update. */
export interface Recorded {
  readonly lane: string;
  readonly category: string;
  readonly name: string;
  readonly start: number;
  readonly end?: number;
  readonly value?: number;
  readonly cause?: number;
  readonly staleness?: number;
}

const WIDTH = { f8: 8, f4: 4, u4: 4, u1: 1 } as const;
const COLUMNS = { lane: "u4", start: "f8", duration: "f4", name: "u4", category: "u1", sort: "u1", value: "f8", cause: "u4" } as const;
const SETTER = { f8: "setFloat64", f4: "setFloat32", u4: "setUint32", u1: "setUint8" } as const;

/** Packs records, and knows what was sent before. */
export class RowPacker {
  private readonly lanes: string[] = [];
  private readonly names: string[] = [];
  private sent = 0;

  constructor(
    private readonly branch: number,
    private readonly kinds: readonly string[],
    private readonly marks: readonly string[],
  ) {}

  pack(records: readonly Recorded[]): [RowsMessage, DataView] {
    const [lanes, names] = [this.lanes.length, this.names.length];
    const bytes = new DataView(new ArrayBuffer(records.length * 34 + 8 * 8));
    const columns: Record<string, ColumnPlace> = {};
    let offset = 0;
    for (const [column, dtype] of Object.entries(COLUMNS)) {
      columns[column] = { dtype, offset, length: records.length };
      records.forEach((record, index) => {
        bytes[SETTER[dtype]](offset + index * WIDTH[dtype], this.cell(column as keyof typeof COLUMNS, record), true);
      });
      offset = Math.ceil((offset + records.length * WIDTH[dtype]) / 8) * 8;
    }
    const message: RowsMessage = {
      kind: "rows",
      branch: this.branch,
      from_row: this.sent,
      rows: records.length,
      names: this.names.slice(names),
      lanes: this.lanes.slice(lanes),
      kinds: [],
      marks: [],
      columns,
    };
    this.sent += records.length;
    return [message, bytes];
  }

  private cell(column: keyof typeof COLUMNS, { lane, category, name, start, end, value, cause, staleness }: Recorded): number {
    const cells = {
      lane: () => placeIn(this.lanes, lane),
      start: () => start,
      duration: () => (end ?? start) - start,
      name: () => placeIn(this.names, name),
      category: () => (value !== undefined ? 0 : (end !== undefined ? this.kinds : this.marks).indexOf(category)),
      sort: () => (value !== undefined ? 2 : end !== undefined ? 0 : 1),
      value: () => value ?? staleness ?? NaN,
      cause: () => cause ?? NO_CAUSE,
    };
    return cells[column]();
  }
}

function placeIn(texts: string[], text: string): number {
  const known = texts.indexOf(text);
  return known >= 0 ? known : texts.push(text) - 1;
}
