// In which order lanes are shown: as the tasks are listed, each followed by its devices; what belongs to no task last.

/** For each place the number of the lane that is shown there. */
export function laneOrder(lanes: readonly string[], tasks: readonly string[]): number[] {
  const rank = new Map(tasks.map((task, index) => [task, index]));
  const rankOf = (lane: string): number => rank.get(lane.split("/", 1)[0]) ?? tasks.length;
  return lanes
    .map((_, index) => index)
    .sort((a, b) => rankOf(lanes[a]) - rankOf(lanes[b]) || lanes[a].localeCompare(lanes[b], "en", { numeric: true }));
}
