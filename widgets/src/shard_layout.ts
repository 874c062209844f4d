// Where the blocks of a shard map go: one column per task, one block per shard, heights by bytes on one scale.
//
// The greatest task fills HEIGHT; every other task is drawn on the same scale, so that columns compare. A block lower
// than LEAST would hide its name and gets LEAST. What then would be too long is folded: the smallest blocks of a
// column become one block that says how many they are. The bar above each column is exact.

export interface Shard {
  readonly variable: string;
  readonly shape: readonly number[]; // of the whole variable
  readonly dtype: string;
  readonly shard: number;
  readonly num_shards: number;
  readonly task: string;
  readonly row_start: number;
  readonly row_stop: number;
  readonly size_bytes: number;
  readonly kind: string; // "parameter", "slot", "metric"
}

export interface Block {
  readonly shards: readonly Shard[]; // more than one: folded
  readonly top: number; // pixels
  readonly height: number; // pixels
}

export interface Column {
  readonly task: string;
  readonly bytes: number;
  readonly share: number; // of the bytes of all tasks, 0 to 1
  readonly fill: number; // of the greatest task, 0 to 1
  readonly blocks: readonly Block[];
  readonly height: number; // pixels
}

export const HEIGHT = 300;
export const LEAST = 22;
export const GAP = 2;
export const MOST_BLOCKS = 24;

/** The columns in the order of `tasks`. */
export function layOut(tasks: readonly string[], shards: readonly Shard[]): Column[] {
  const byTask = new Map(tasks.map((task): [string, Shard[]] => [task, []]));
  for (const shard of shards) byTask.get(shard.task)?.push(shard);
  const sizes = tasks.map((task) => sum(byTask.get(task) ?? []));
  const greatest = Math.max(...sizes, 1);
  const total = sizes.reduce((a, b) => a + b, 0);
  return tasks.map((task, index) => {
    const blocks = stack(byTask.get(task) ?? [], HEIGHT / greatest);
    const last = blocks.at(-1);
    return {
      task,
      bytes: sizes[index],
      share: total > 0 ? sizes[index] / total : 0,
      fill: sizes[index] / greatest,
      blocks,
      height: last ? last.top + last.height : 0,
    };
  });
}

/** How unequal the tasks are: the greatest task's bytes divided by the mean; 1 is perfect balance. */
export function imbalance(columns: readonly Column[]): number {
  const total = columns.reduce((bytes, column) => bytes + column.bytes, 0);
  return total > 0 ? Math.max(...columns.map((column) => column.bytes)) / (total / columns.length) : 1;
}

function stack(shards: readonly Shard[], scale: number): Block[] {
  let top = 0;
  return fold(shards).map((group) => {
    const height = Math.max(LEAST, sum(group) * scale - GAP);
    const block = { shards: group, top, height };
    top += height + GAP;
    return block;
  });
}

/** One group per shard, in the given order; the smallest beyond MOST_BLOCKS become one group at the end. */
function fold(shards: readonly Shard[]): (readonly Shard[])[] {
  if (shards.length <= MOST_BLOCKS) return shards.map((shard) => [shard]);
  const bySize = [...shards].sort((a, b) => b.size_bytes - a.size_bytes);
  const kept = new Set(bySize.slice(0, MOST_BLOCKS - 1));
  const single = shards.filter((shard) => kept.has(shard)).map((shard) => [shard]);
  return [...single, shards.filter((shard) => !kept.has(shard))];
}

function sum(shards: readonly Shard[]): number {
  return shards.reduce((bytes, shard) => bytes + shard.size_bytes, 0);
}
