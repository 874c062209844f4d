// The words of a stepper: in the chunks, on the card of a chunk, and about one rank.

import { formatBytes, formatCount, formatDuration } from "./format.ts";
import type { Chunk, StepperData, Transfer } from "./stepper_data.ts";
import type { Group } from "./tooltip.ts";

const MOST_LISTED = 12;

/** What stands in a chunk that is large enough for words. */
export function label(data: StepperData, chunk: Chunk): string {
  const { sums, num_ranks } = data.header;
  if (chunk.value !== null) return !sums && !chunk.needed ? "" : Number(chunk.value.toPrecision(4)).toString();
  if (!sums) return chunk.needed ? `from ${chunk.contributors.join("+")}` : "";
  if (!chunk.complete && chunk.contributors.length === num_ranks) return "added twice";
  return chunk.complete ? "sum" : `${chunk.contributors.length} of ${num_ranks}`;
}

/** The numbers beside the sentence: a name, a value, and how much of the whole it is. */
export function progress(data: StepperData, moment: number): { name: string; value: string; part: number }[] {
  const { steps, sums, results } = data.header;
  const [now, end] = [steps[moment], steps[data.last]];
  const of = (part: number, whole: number): number => (whole > 0 ? part / whole : 1);
  return [
    { name: "time", value: `${formatDuration(now.end_s)} of ${formatDuration(end.end_s)}`, part: of(now.end_s, end.end_s) },
    {
      name: "sent by all ranks",
      value: `${bytes(now.sent_bytes)} of ${bytes(end.sent_bytes)}`,
      part: of(now.sent_bytes, end.sent_bytes),
    },
    {
      name: "by the busiest rank",
      value: `${bytes(now.busiest_bytes)} of ${bytes(end.busiest_bytes)}`,
      part: of(now.busiest_bytes, end.busiest_bytes),
    },
    { name: sums ? "whole sums" : "chunks in place", value: `${now.complete} of ${results}`, part: of(now.complete, results) },
  ];
}

/** What the card says about a chunk. */
export function facts(data: StepperData, moment: number, rank: number, chunk: number): Group[] {
  const { header } = data;
  const now = data.chunk(moment, rank, chunk);
  const holds = header.sums || now.needed ? `${list(now.contributors)} (${now.contributors.length} of ${header.num_ranks})` : "nothing yet";
  const own: [string, string][] = [["data of ranks", holds]];
  if (now.value !== null) own.push(["value", String(now.value)]);
  own.push(["size", bytes(header.size_bytes / header.num_chunks)]);
  for (const transfer of header.steps[moment].transfers) {
    if (!transfer.chunks.includes(chunk)) continue;
    if (transfer.target === rank) own.push(["received", `from rank ${transfer.source}, ${transfer.adds ? "added" : "replaced its own"}`]);
    if (transfer.source === rank) own.push(["sent", `to rank ${transfer.target}, as it was before this step`]);
  }
  if (header.sums && !now.complete && now.contributors.length === header.num_ranks) own.push(["wrong", "a rank was added twice"]);
  if (header.sums && !now.needed) own.push(["needed", "no longer: it was passed on, or will be replaced"]);
  return [{ title: `rank ${rank}, chunk ${chunk}`, color: header.colors[rank], facts: own }];
}

/** What one rank does in the step that ends at `moment`, and what it holds then. */
export function aboutRank(data: StepperData, moment: number, rank: number): string {
  const { steps, num_chunks, sums } = data.header;
  const sends = steps[moment].transfers.filter((transfer) => transfer.source === rank);
  const receives = steps[moment].transfers.filter((transfer) => transfer.target === rank);
  const does = [
    ...sends.map((transfer) => `sends ${chunksOf(transfer)} to rank ${transfer.target}`),
    ...receives.map((transfer) => {
      const its = transfer.chunks.length > 1 ? "them" : "it";
      const effect = transfer.adds ? `adds ${its} to its own` : `puts ${its} in the place of its own`;
      return `gets ${chunksOf(transfer)} from rank ${transfer.source} and ${effect}`;
    }),
  ];
  const complete = Array.from({ length: num_chunks }, (_, chunk) => data.chunk(moment, rank, chunk).complete).filter(Boolean).length;
  const holds = `holds ${complete} of ${num_chunks} ${sums ? "sums" : "chunks"}`;
  const idle = moment === 0 ? [] : ["neither sends nor gets anything"];
  return `Rank ${rank} ${[...(does.length ? does : idle), holds].join("; ")}.`;
}

function chunksOf({ chunks }: Transfer): string {
  if (chunks.length === 1) return `chunk ${chunks[0]}`;
  return chunks.length <= 4 ? `chunks ${chunks.join(", ")}` : formatCount(chunks.length, "chunk");
}

function list(ranks: readonly number[]): string {
  return ranks.length <= MOST_LISTED ? ranks.join(", ") : `${ranks.slice(0, MOST_LISTED - 1).join(", ")}, …`;
}

function bytes(count: number): string {
  return formatBytes(Math.round(count));
}
