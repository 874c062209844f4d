// A shard map as it arrives from Python (shard_map.py): shards of every task, or, of very many tasks, one cell each.

import type { Shard } from "./shard_layout.ts";

export interface HeatCell {
  readonly task: string;
  readonly bytes: number;
  readonly color: string;
  readonly num_shards: number;
  readonly share: number | null; // of the bytes of all tasks of the balance, 0 to 1; null: not one of them
  readonly largest: readonly (readonly [string, number])[]; // the names and bytes of its largest shards
  readonly figure?: readonly [string, string]; // what its colour shows, where that is not its bytes
}

/** The scale of colours that show a figure of shards (shard_colors.py). */
export interface ShardScale {
  readonly title: string;
  readonly ramp: readonly string[];
  readonly ends: readonly [string, string];
  readonly unknown: string | null; // the colour of what has no value; null: all have one
}

export interface Heat {
  readonly columns: number; // cells of a row
  readonly rows: readonly (readonly HeatCell[])[]; // every job begins a row
  readonly ramp: readonly string[]; // the colours of the scale, from 0 to `greatest` bytes
  readonly greatest: number; // bytes
  readonly scale?: ShardScale; // where colours do not show bytes
}

export interface ShardHeader {
  readonly tasks: readonly string[];
  readonly balanced: readonly string[]; // the tasks between which the variables are meant to be shared
  readonly num_variables: number;
  readonly num_shards: number;
  readonly size_bytes: number;
  readonly balance: string; // how even the tasks are, in words; "" where there is nothing to compare
  readonly kinds: readonly { readonly name: string; readonly color: string }[];
  readonly shards: readonly Shard[]; // none where there is `heat`
  readonly heat: Heat | null;
  readonly scale?: ShardScale; // where colours do not show kinds
}
