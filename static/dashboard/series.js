/** The last values of a number that changes, and the line that shows them. Pure. */

export class Series {
  #values;
  #next = 0;
  length = 0;

  /** @param {number} capacity - so many values are kept */
  constructor(capacity) {
    this.#values = new Float64Array(capacity);
  }

  /** @param {number} value */
  push(value) {
    this.#values[this.#next] = value;
    this.#next = (this.#next + 1) % this.#values.length;
    this.length = Math.min(this.length + 1, this.#values.length);
  }

  /** @returns {number[]} the oldest first */
  values() {
    const start = this.#next - this.length + this.#values.length;
    return Array.from({ length: this.length }, (_, index) => this.#values[(start + index) % this.#values.length]);
  }

  get peak() {
    let peak = 0;
    for (let index = 0; index < this.length; index += 1) peak = Math.max(peak, this.#values[index]);
    return peak;
  }

  /**
   * @param {number} width
   * @param {number} height
   * @returns {{line: string, area: string}} as path data; the newest value is at the right edge
   */
  paths(width, height) {
    if (this.length < 2) return { line: '', area: '' };
    const top = 1.5;
    const peak = this.peak || 1;
    const step = width / (this.#values.length - 1);
    const left = width - step * (this.length - 1);
    const points = this.values().map((value, index) => `${(left + index * step).toFixed(1)} ${(height - top - ((height - 2 * top) * value) / peak).toFixed(1)}`);
    const line = `M${points.join('L')}`;
    return { line, area: `${line}L${width} ${height}L${left.toFixed(1)} ${height}Z` };
  }
}
