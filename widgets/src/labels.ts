// Texts that have less room than they need. What tells names apart is mostly their end: "closure #12", "worker:12".
//
// The static picture writes the same lane labels (simdist/trace/lane_labels.py); tests/widgets/picture_cases.json
// holds examples that both sides are tested with.

export const MOST_LANE_CHARACTERS = 16;
const LEAST_SHOWN = 7; // characters of the beginning of a name; fewer say nothing
const NUMBER_AT_END = /[#:]?\d+$/;
const PIECE_OF_A_WORD = /^…\S* /;

export interface LaneLabel {
  readonly text: string;
  readonly isPart: boolean; // of a task: a device, a disk
}

/** What stands beside a lane. */
export function laneLabel(lane: string): LaneLabel {
  const slash = lane.indexOf("/");
  return { text: shortenFront(lane.slice(slash + 1), MOST_LANE_CHARACTERS), isPart: slash >= 0 };
}

/** The task that a lane belongs to: of "worker:0/GPU:0" that is "worker:0". */
export function taskOf(lane: string | undefined): string {
  return (lane ?? "").split("/")[0];
}

/** A text of at most `room` characters, cut from the front. */
export function shortenFront(text: string, room: number): string {
  return text.length <= room ? text : `…${text.slice(text.length - room + 1).trimStart()}`;
}

/** A name cut to `room` characters: from the front where it ends with a number, which is kept whole; empty without room. */
export function shorten(text: string, room: number): string {
  if (text.length <= room) return text;
  const number = NUMBER_AT_END.exec(text)?.[0] ?? "";
  if (number) return number.length < room ? shortenFront(text, room).replace(PIECE_OF_A_WORD, "…") : "";
  return room > LEAST_SHOWN ? `${text.slice(0, room - 1)}…` : "";
}
