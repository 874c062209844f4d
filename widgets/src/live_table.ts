// A table that grows while a run goes on. Each lane has pages of rows; the rows of a page, and the pages of a lane, are in
// order of start.
//
// A span is recorded when it ends, so one that holds others comes after them and belongs before them: it is put in its
// place within one page, and a full page is split in two. So an append moves at most one page of rows, whatever comes. For
// every page the latest end is known: pages that end before a window are skipped.

import { Groups } from "./groups.ts";
import { withRoom } from "./growing.ts";
import { Pyramid } from "./pyramid.ts";
import { firstAfter, type Table } from "./table.ts";

export const PAGE = 256; // rows

/** Where the rows of a recording are now: the number of a record to its row. */
export class Places {
  private rows = new Int32Array(1024);

  set(record: number, row: number): void {
    this.rows = withRoom(this.rows, record + 1);
    this.rows[record] = row;
  }

  rowOf(record: number): number {
    return this.rows[record] ?? -1;
  }
}

export interface Row {
  readonly lane: number;
  readonly kind: number;
  readonly name: number;
  readonly start: number;
  readonly duration: number;
  readonly record: number;
}

export class LiveTable implements Table {
  count = 0;
  kind = new Uint8Array(PAGE);
  name = new Uint32Array(PAGE);
  start = new Float64Array(PAGE);
  duration = new Float32Array(PAGE);
  readonly groups = new Groups();
  record = new Uint32Array(PAGE); // which record of the run a row is
  private used = new Uint16Array(1); // rows of each page
  private pageEnd = new Float64Array(1);
  private pageLane = new Uint32Array(1);
  private pageCount = 0;
  private readonly lanes: number[][] = []; // the pages of each lane, by the number that it was recorded under
  private order: readonly number[] = []; // those numbers in the order in which lanes are shown
  private place: readonly number[] = []; // and the other way round
  private readonly counts = new Uint32Array(256);
  private readonly pyramids: Pyramid[] = []; // by lane as recorded; of those that were drawn from one

  constructor(
    private readonly places: Places,
    private readonly factsOf: (record: number) => Readonly<Record<string, unknown>>,
  ) {}

  /** Says in which order lanes are shown: everywhere but in `append`, a lane is its place in that order. */
  arrange(order: readonly number[], place: readonly number[]): void {
    [this.order, this.place] = [order, place];
  }

  append(row: Row): void {
    const pages = (this.lanes[row.lane] ??= []);
    let index = this.pageFor(pages, row.start, row.duration);
    if (index < 0) index = pages.push(this.newPage(row.lane)) - 1;
    else if (this.used[pages[index]] === PAGE) index = this.makeRoom(pages, index, row);
    const page = pages[index];
    let at = page * PAGE + this.used[page]++;
    for (const first = page * PAGE; at > first && isBefore(row.start, row.duration, this.start[at - 1], this.duration[at - 1]); at--) {
      this.move(at - 1, at);
    }
    [this.start[at], this.duration[at], this.kind[at], this.name[at], this.record[at]] = [row.start, row.duration, row.kind, row.name, row.record];
    this.places.set(row.record, at);
    this.groups.touch(at);
    this.pyramids[row.lane]?.add(row.kind, row.start, row.duration);
    this.pageEnd[page] = Math.max(this.pageEnd[page], row.start + row.duration);
    this.counts[row.kind] += 1;
    this.count += 1;
  }

  stretches(lane: number, start: number, end: number, visit: (from: number, to: number) => void): void {
    for (const page of this.pagesOf(lane)) {
      const first = page * PAGE;
      if (this.start[first] > end) return;
      if (this.pageEnd[page] < start) continue;
      const stop = first + this.used[page];
      visit(first, this.start[stop - 1] > end ? firstAfter(this.start, first, stop, end) : stop);
    }
  }

  all(visit: (from: number, to: number) => void): void {
    for (let page = 0; page < this.pageCount; page++) visit(page * PAGE, page * PAGE + this.used[page]);
  }

  firstAfter(lane: number, time: number, orAt = false): number {
    for (const page of this.pagesOf(lane)) {
      const stop = page * PAGE + this.used[page];
      const row = firstAfter(this.start, page * PAGE, stop, time, orAt);
      if (row < stop) return row;
    }
    return -1;
  }

  next(row: number, step: 1 | -1): number {
    const page = Math.floor(row / PAGE);
    const at = row - page * PAGE + step;
    if (at >= 0 && at < this.used[page]) return row + step;
    const pages = this.lanes[this.pageLane[page]];
    const other = pages[pages.indexOf(page) + step];
    if (other === undefined) return -1;
    return other * PAGE + (step > 0 ? 0 : this.used[other] - 1);
  }

  lastOf(lane: number): number {
    const page = this.pagesOf(lane).at(-1);
    return page === undefined ? -1 : page * PAGE + this.used[page] - 1;
  }

  laneOf(row: number): number {
    const lane = this.pageLane[Math.floor(row / PAGE)];
    return this.place[lane] ?? lane;
  }

  pyramid(lane: number): Pyramid {
    const recorded = this.order[lane] ?? lane;
    return (this.pyramids[recorded] ??= this.summed(recorded));
  }

  countOf(kind: number): number {
    return this.counts[kind];
  }

  facts(row: number): Readonly<Record<string, unknown>> {
    return this.factsOf(this.record[row]);
  }

  private pagesOf(lane: number): readonly number[] {
    return this.lanes[this.order[lane] ?? lane] ?? [];
  }

  private summed(recorded: number): Pyramid {
    const pages = this.lanes[recorded] ?? [];
    const pyramid = new Pyramid(pages.reduce((latest, page) => Math.max(latest, this.pageEnd[page]), 0));
    for (const page of pages) {
      for (let row = page * PAGE; row < page * PAGE + this.used[page]; row++) pyramid.add(this.kind[row], this.start[row], this.duration[row]);
    }
    return pyramid;
  }

  /** The page that a row belongs to: nearly always the last one. */
  private pageFor(pages: readonly number[], start: number, duration: number): number {
    let index = pages.length - 1;
    while (index > 0 && isBefore(start, duration, this.start[pages[index] * PAGE], this.duration[pages[index] * PAGE])) index -= 1;
    return index;
  }

  /** Makes room in a full page, or takes a new one behind it where the row comes last. */
  private makeRoom(pages: number[], index: number, row: Row): number {
    const page = pages[index];
    const last = page * PAGE + PAGE - 1;
    const added = this.newPage(row.lane);
    pages.splice(index + 1, 0, added);
    if (!isBefore(row.start, row.duration, this.start[last], this.duration[last])) return index + 1;
    const half = PAGE / 2;
    for (let i = half; i < PAGE; i++) this.move(page * PAGE + i, added * PAGE + i - half);
    this.used[page] = this.used[added] = half;
    for (const part of [page, added]) this.pageEnd[part] = this.latestEnd(part);
    const second = added * PAGE;
    return isBefore(row.start, row.duration, this.start[second], this.duration[second]) ? index : index + 1;
  }

  private latestEnd(page: number): number {
    let end = -Infinity;
    for (let row = page * PAGE; row < page * PAGE + this.used[page]; row++) end = Math.max(end, this.start[row] + this.duration[row]);
    return end;
  }

  private move(from: number, to: number): void {
    this.start[to] = this.start[from];
    this.duration[to] = this.duration[from];
    this.kind[to] = this.kind[from];
    this.name[to] = this.name[from];
    this.record[to] = this.record[from];
    this.places.set(this.record[to], to);
    this.groups.touch(to);
  }

  private newPage(lane: number): number {
    const page = this.pageCount++;
    const rows = this.pageCount * PAGE;
    this.kind = withRoom(this.kind, rows);
    this.name = withRoom(this.name, rows);
    this.start = withRoom(this.start, rows);
    this.duration = withRoom(this.duration, rows);
    this.record = withRoom(this.record, rows);
    this.used = withRoom(this.used, this.pageCount);
    this.pageEnd = withRoom(this.pageEnd, this.pageCount);
    this.pageLane = withRoom(this.pageLane, this.pageCount);
    this.pageEnd[page] = -Infinity;
    this.pageLane[page] = lane;
    return page;
  }
}

/** Whether a row comes before another: by start, then the longer one, which holds the other. */
function isBefore(start: number, duration: number, otherStart: number, otherDuration: number): boolean {
  return start < otherStart || (start === otherStart && duration > otherDuration);
}
