// The mean of the last few values, one value after the other.

export class RecentMean {
  private readonly values: Float64Array;
  private count = 0;
  private sum = 0;

  constructor(readonly most: number) {
    this.values = new Float64Array(most);
  }

  /** Takes a value, and gives the mean of the last ones. The values are whole numbers, so that the sum stays exact. */
  add(value: number): number {
    const place = this.count % this.most;
    this.sum += value - this.values[place];
    this.values[place] = value;
    this.count += 1;
    return this.sum / Math.min(this.count, this.most);
  }
}
