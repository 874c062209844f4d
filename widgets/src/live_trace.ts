// The trace of a branch while it grows: what a timeline, charts and the benchmark read.

import { BusyBins } from "./busy_bins.ts";
import { Series } from "./counters.ts";
import { formatMoment } from "./format.ts";
import { withRoom } from "./growing.ts";
import { laneOrder } from "./lane_order.ts";
import { LiveTable, Places } from "./live_table.ts";
import { RecentMean } from "./recent_mean.ts";
import { COUNTER, INSTANT, NO_CAUSE, readRows, SPAN, type RecordedRows, type RowsMessage } from "./rows_message.ts";
import { DOWN_LEVEL, type Kind, type MarkKind, type TraceData, type TraceHeader } from "./trace_data.ts";

const WORK_LEVEL = 1;
const INPUT = "input"; // is drawn as work, but is a wait, as in simdist/trace/summary.py
const NETWORK = /\/network$/; // ends the lane of what a device sends while it computes: both are one worker
const UPDATE = "apply"; // the kind of spans whose value is their staleness
const RECENT = 20; // updates
export const STALENESS = `staleness, mean of ${RECENT}`; // the series of all servers together
const DISC = "M7 0C7 3.87 3.87 7 0 7C-3.87 7 -7 3.87 -7 0C-7 -3.87 -3.87 -7 0 -7C3.87 -7 7 -3.87 7 0Z";
const EMPTY_TEXT = "Nothing has happened yet. Press play, or take one step.";

export interface Styles {
  readonly kinds: readonly Kind[];
  readonly marks: readonly MarkKind[];
}

/** A style of marks with a shape, where the kernel has named none. */
function withGlyph(kind: MarkKind): MarkKind {
  return { ...kind, body: kind.body ?? DISC, sign: kind.sign ?? "" };
}

export class LiveTrace implements TraceData {
  header!: TraceHeader;
  names: string[] = [];
  spans!: LiveTable;
  instants!: LiveTable;
  series = new Map<string, Series>();
  busy = new BusyBins();
  private staleness = new RecentMean(RECENT);
  version = 0; // greater after every change
  arrived = 0; // rows
  private shownLanes: readonly string[] = [];
  private lanes: string[] = []; // in order of arrival
  private kinds: Kind[] = [];
  private marks: MarkKind[] = [];
  private sorts = new Uint8Array(1024);
  private causes = new Uint32Array(1024);
  private places!: readonly Places[];
  private downRecords: number[] = [];
  private eventRecords: number[] = [];
  private last_s = 0;
  private greatest = -1; // number of a record

  constructor(
    private readonly tasks: readonly string[],
    private readonly styles: Styles,
  ) {
    this.clear();
  }

  /** Forgets all rows, names, lanes and late styles: after a rewind all of them come again. */
  clear(): void {
    const facts = (record: number): Readonly<Record<string, unknown>> => this.factsOf(record);
    this.places = [new Places(), new Places()];
    this.spans = new LiveTable(this.places[SPAN], facts);
    this.instants = new LiveTable(this.places[INSTANT], facts);
    [this.names, this.lanes, this.downRecords, this.eventRecords] = [[], [], [], []];
    [this.kinds, this.marks] = [[...this.styles.kinds], this.styles.marks.map(withGlyph)];
    this.series = new Map();
    this.busy = new BusyBins();
    this.staleness = new RecentMean(RECENT);
    this.arrived = this.last_s = 0;
    this.greatest = -1;
    this.sorts.fill(COUNTER);
    this.arrange();
    this.changed();
  }

  append(message: RowsMessage, bytes: DataView): void {
    if (message.from_row !== this.arrived) {
      throw new Error(`rows from ${message.from_row} came after ${this.arrived} rows; send resend to get all of them`);
    }
    this.names.push(...message.names);
    this.kinds.push(...message.kinds);
    this.marks.push(...message.marks.map(withGlyph));
    if (message.lanes.length) {
      this.lanes.push(...message.lanes);
      this.arrange();
    }
    const rows = readRows(message, bytes);
    for (let index = 0; index < message.rows; index++) this.add(rows, index);
    this.changed();
  }

  downRows(): Uint32Array {
    return Uint32Array.from(this.downRecords, (record) => this.places[SPAN].rowOf(record));
  }

  eventRows(): Uint32Array {
    const { start } = this.instants;
    const rows = Uint32Array.from(this.eventRecords, (record) => this.places[INSTANT].rowOf(record));
    return rows.sort((a, b) => start[a] - start[b]); // recorded in order of time but for a few, so this is quick
  }

  /** Where a record is now; null for one that is no span and no instant. */
  find(record: number): { sort: "span" | "instants"; row: number } | null {
    const sort = this.sorts[record] ?? COUNTER;
    if (sort === COUNTER || record > this.greatest) return null;
    return { sort: sort === SPAN ? "span" : "instants", row: this.places[sort].rowOf(record) };
  }

  private add(rows: RecordedRows, index: number): void {
    const sort = rows.sort[index];
    const record = rows.number?.[index] ?? this.arrived;
    this.arrived += 1;
    const [lane, name, kind, start] = [rows.lane[index], rows.name[index], rows.category[index], rows.start[index]];
    if (sort === COUNTER) return this.addValue(this.lanes[lane], this.names[name], start, rows.value[index]);
    this.remember(record, sort, rows.cause[index]);
    const duration = sort === SPAN ? rows.duration[index] : 0;
    (sort === SPAN ? this.spans : this.instants).append({ lane, name, kind, start, duration, record });
    this.last_s = Math.max(this.last_s, start + duration);
    const level = (sort === SPAN ? this.kinds : this.marks)[kind].level;
    if (sort === INSTANT && level > 0) this.eventRecords.push(record);
    if (sort === SPAN && this.kinds[kind].name === UPDATE && Number.isFinite(rows.value[index])) {
      this.addValue("", STALENESS, start + duration, this.staleness.add(rows.value[index]));
    }
    if (sort === SPAN && level >= DOWN_LEVEL) this.downRecords.push(record);
    const isWork = sort === SPAN && level === WORK_LEVEL && this.kinds[kind].name !== INPUT;
    if (isWork && this.isWorker(this.lanes[lane])) this.busy.add(this.lanes[lane].replace(NETWORK, ""), start, duration);
  }

  /** The share of the workers that was busy, up to a moment: of their devices, and of those that have done nothing yet. */
  busyShares(end: number): { times: number[]; values: number[] } {
    const counted = new Set(this.busy.lanes);
    for (const lane of this.lanes) if (lane.includes("/") && !NETWORK.test(lane) && this.isWorker(lane)) counted.add(lane);
    const seen = new Set([...counted].map((lane) => lane.split("/", 1)[0]));
    const unseen = [...new Set([...this.tasks, ...this.lanes])].filter((lane) => !lane.includes("/") && this.isWorker(lane) && !seen.has(lane));
    return this.busy.shares(end, counted.size + unseen.length);
  }

  /** Whose business counts: the workers', or everybody's where there are none. */
  private isWorker(lane: string): boolean {
    return lane.startsWith("worker") || !this.tasks.some((task) => task.startsWith("worker"));
  }

  private remember(record: number, sort: number, cause: number): void {
    this.greatest = Math.max(this.greatest, record);
    this.sorts = withRoom(this.sorts, record + 1);
    this.causes = withRoom(this.causes, record + 1);
    this.sorts[record] = sort;
    this.causes[record] = cause;
  }

  private addValue(lane: string, name: string, time: number, value: number): void {
    const key = `${lane}\n${name}`;
    const series = this.series.get(key) ?? new Series(lane, name);
    this.series.set(key, series);
    series.append(time, value);
    this.last_s = Math.max(this.last_s, time);
  }

  private arrange(): void {
    const all = [...new Set([...this.lanes, ...this.tasks])]; // tasks that have done nothing yet have empty lanes
    const order = laneOrder(all, this.tasks);
    const place = new Array<number>(order.length);
    order.forEach((lane, index) => (place[lane] = index));
    for (const table of [this.spans, this.instants]) table.arrange(order, place);
    this.shownLanes = order.map((lane) => all[lane]);
  }

  private changed(): void {
    this.version += 1;
    this.header = {
      version: 2,
      lanes: this.shownLanes,
      kinds: this.kinds,
      marks: this.marks,
      first_s: 0,
      last_s: this.last_s,
      facts_left_out: 0,
      not_restarted: 0,
      empty_text: this.shownLanes.length ? "" : EMPTY_TEXT,
      columns: {},
    };
  }

  /** What the card says beyond the row itself: what caused it. */
  private factsOf(record: number): Readonly<Record<string, unknown>> {
    const cause = this.causes[record];
    const found = cause === NO_CAUSE ? null : this.find(cause);
    if (!found) return {};
    const table = found.sort === "span" ? this.spans : this.instants;
    return { cause: `${this.names[table.name[found.row]]}, ${formatMoment(table.start[found.row])}` };
  }
}
