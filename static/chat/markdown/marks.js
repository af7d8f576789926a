/** What may begin or end something in inline content. Pure. */

/** A run of `*`, `_` or `~`. */
export class Mark {
  /** What begins here, outermost first. @type {Chat.Inline['type'][]} */
  begins = [];
  /** What ends here, innermost first. @type {Chat.Inline['type'][]} */
  ends = [];

  /**
   * @param {string} sign
   * @param {number} length
   * @param {number} at
   * @param {boolean} opens
   * @param {boolean} closes
   */
  constructor(sign, length, at, opens, closes) {
    this.sign = sign;
    /** What is still unpaired. */
    this.length = length;
    this.size = length;
    this.at = at;
    this.opens = opens;
    this.closes = closes;
  }

  /** @param {Mark} closer */
  matches(closer) {
    if (this.sign !== closer.sign || this.length === 0) return false;
    // CommonMark's rule of three keeps `*a**b*` in one piece.
    const both = (this.closes || closer.opens) && (this.size + closer.size) % 3 === 0;
    return !both || (this.size % 3 === 0 && closer.size % 3 === 0);
  }
}

