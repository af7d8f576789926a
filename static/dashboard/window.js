/** Which items of a long list are in view, where each has its height. Pure. */

/** So many items above and below what is seen are drawn too. */
const OVERSCAN = 10;

export class Window {
  /** Where each item begins, and the end of the last. */
  #tops = new Float64Array(1);

  get height() {
    return this.#tops[this.#tops.length - 1];
  }

  /** @param {number[]} heights - px */
  measure(heights) {
    this.#tops = new Float64Array(heights.length + 1);
    heights.forEach((height, index) => {
      this.#tops[index + 1] = this.#tops[index] + height;
    });
  }

  /** @param {number} index */
  top(index) {
    return this.#tops[index];
  }

  /**
   * @param {number} from - px
   * @param {number} height - px
   * @returns {[number, number]} the first, and the one after the last
   */
  range(from, height) {
    const last = this.#tops.length - 1;
    return [Math.max(0, this.#at(from) - OVERSCAN), Math.min(last, this.#at(from + height) + 1 + OVERSCAN)];
  }

  /** @param {number} y */
  #at(y) {
    let [low, high] = [0, Math.max(0, this.#tops.length - 2)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#tops[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
