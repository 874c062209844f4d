// Where the blocks of a shard map go: one column per task, one block per shard, heights by bytes on one scale.
//
// The greatest task fills HEIGHT; every other task is drawn on the same scale. A height is always the block's bytes times
// that scale, whatever has room in it, so areas compare within a column and between columns. What would be lower than
// SEEN, and the smallest of more than MOST_BLOCKS, is folded: it becomes one block at the end that says how many shards
// it holds. Names without room in their block are listed below the column, in `shard_map.ts`.

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
  readonly axis?: number; // along which the variable is cut, and rows are counted; 0 where it is left out
  readonly slot_of?: string; // of a slot, its variable
  readonly namesake?: number; // which of several variables of this name; 0 where it is left out
  readonly color?: string; // where colours show a figure: that of its value
  readonly value?: number | null; // of that figure; null: it has none
  readonly facts?: readonly (readonly [string, string])[]; // its traffic, in words
}

export interface Block {
  readonly shards: readonly Shard[]; // more than one: folded
  readonly top: number; // pixels
  readonly height: number; // pixels
}

export interface Column {
  readonly task: string;
  readonly bytes: number;
  readonly share: number | null; // of the bytes of all tasks of the balance, 0 to 1; null: not one of them
  readonly blocks: readonly Block[];
  readonly height: number; // pixels
}

export const HEIGHT = 300;
export const SEEN = 3;
export const MOST_BLOCKS = 24;

/** The columns in the order of `tasks`; `balanced` are those between which the variables are meant to be shared. */
export function layOut(tasks: readonly string[], balanced: readonly string[], shards: readonly Shard[]): Column[] {
  const byTask = new Map(tasks.map((task): [string, Shard[]] => [task, []]));
  for (const shard of shards) byTask.get(shard.task)?.push(shard);
  const bytesOf = (task: string): number => sum(byTask.get(task) ?? []);
  const scale = HEIGHT / Math.max(...tasks.map(bytesOf), 1);
  const total = balanced.reduce((bytes, task) => bytes + bytesOf(task), 0);
  return tasks.map((task) => {
    const bytes = bytesOf(task);
    const share = !balanced.includes(task) ? null : total > 0 ? bytes / total : 0;
    return { task, bytes, share, blocks: stack(byTask.get(task) ?? [], scale), height: bytes * scale };
  });
}

function stack(shards: readonly Shard[], scale: number): Block[] {
  let top = 0;
  return fold(shards, SEEN / scale).map((group) => {
    const block = { shards: group, top, height: sum(group) * scale };
    top += block.height;
    return block;
  });
}

/** One group per shard, in the given order; the too small and the smallest beyond MOST_BLOCKS are one group at the end. */
function fold(shards: readonly Shard[], leastBytes: number): (readonly Shard[])[] {
  const bySize = [...shards].sort((a, b) => b.size_bytes - a.size_bytes);
  const most = shards.length > MOST_BLOCKS ? MOST_BLOCKS - 1 : MOST_BLOCKS;
  const kept = new Set(bySize.slice(0, most).filter((shard) => shard.size_bytes >= leastBytes));
  const single = shards.filter((shard) => kept.has(shard)).map((shard) => [shard]);
  const small = shards.filter((shard) => !kept.has(shard));
  return small.length > 0 ? [...single, small] : single;
}

function sum(shards: readonly Shard[]): number {
  return shards.reduce((bytes, shard) => bytes + shard.size_bytes, 0);
}
