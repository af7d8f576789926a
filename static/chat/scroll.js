/**
 * The reading position. At the bottom, new content keeps the bottom in view; anywhere else the first visible entry stays
 * where it is, whatever changes above it. Corrections happen between layout and paint, so nothing is seen to move and no
 * layout is forced.
 */

/** This near the bottom counts as the bottom, in px. */
const BOTTOM = 48;

export class Scroller {
  /** Whether new content keeps the bottom in view. */
  following = true;
  #box;
  #lane;
  #changed;
  /** @type {{element: Element, top: number}|null} */
  #anchor = null;
  /** What a pointer is over stays where it is, also while following. @type {{element: Element, top: number}|null} */
  #pinned = null;
  #last = 0;

  /**
   * @param {HTMLElement} box - that scrolls
   * @param {HTMLElement} lane - in it, whose children are the entries
   * @param {() => void} changed - following began or ended
   */
  constructor(box, lane, changed) {
    this.#box = box;
    this.#lane = lane;
    this.#changed = changed;
    box.addEventListener('scroll', () => this.#scrolled(), { passive: true });
    const observer = new ResizeObserver(() => this.#correct());
    observer.observe(box);
    observer.observe(lane);
    document.addEventListener('selectionchange', () => {
      const selection = document.getSelection();
      if (selection !== null && !selection.isCollapsed && selection.anchorNode !== null && lane.contains(selection.anchorNode)) this.#let();
    });
  }

  /** An explicit act of the reader: follow again. */
  toBottom() {
    this.#follow(true);
    this.#box.scrollTop = this.#box.scrollHeight;
    this.#last = this.#box.scrollTop;
  }

  /**
   * @param {Element} element
   */
  toElement(element) {
    this.#follow(false);
    element.scrollIntoView({ block: 'start' });
    this.#box.scrollTop -= 16;
    this.hold(element);
  }

  /**
   * This element keeps its place while what is around it changes.
   * @param {Element} element
   */
  hold(element) {
    this.#follow(false);
    this.#anchor = { element, top: this.#topOf(element) };
  }

  /**
   * This element keeps its place until another, or none, is named; then following goes on.
   * @param {Element|null} element
   */
  pin(element) {
    this.#pinned = element === null ? null : { element, top: this.#topOf(element) };
    if (element === null) this.#correct();
  }

  /** Whether there is something below what is in view. */
  get below() {
    return this.#box.scrollHeight - this.#box.scrollTop - this.#box.clientHeight > BOTTOM;
  }

  #let() {
    if (!this.following) return;
    this.#follow(false);
    this.#remember();
  }

  /** @param {boolean} following */
  #follow(following) {
    if (following) this.#anchor = null;
    if (this.following === following) return;
    this.following = following;
    this.#changed();
  }

  #scrolled() {
    const { scrollTop } = this.#box;
    const up = scrollTop < this.#last - 1;
    const own = scrollTop === this.#last;
    this.#last = scrollTop;
    if (own) return;
    this.#pinned = null;
    if (!this.below) {
      if (!up || this.following) this.#follow(true);
    } else if (up || !this.following) {
      this.#follow(false);
      this.#remember();
    }
    if (!this.following) this.#changed();
  }

  /** Takes the first visible entry as what stays in place. */
  #remember() {
    const entries = this.#lane.children;
    let [low, high] = [0, entries.length - 1];
    const edge = this.#box.getBoundingClientRect().top;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (entries[middle].getBoundingClientRect().bottom > edge) high = middle;
      else low = middle + 1;
    }
    const element = entries[low];
    this.#anchor = element === undefined ? null : { element, top: this.#topOf(element) };
  }

  /** @param {Element} element */
  #topOf(element) {
    return element.getBoundingClientRect().top - this.#box.getBoundingClientRect().top;
  }

  #correct() {
    const still = this.#pinned ?? (this.following ? null : this.#anchor);
    if (still !== null && still.element.isConnected) {
      const moved = this.#topOf(still.element) - still.top;
      if (Math.abs(moved) >= 1) this.#box.scrollTop += moved;
    } else if (this.following) {
      this.#box.scrollTop = this.#box.scrollHeight;
    } else {
      this.#remember();
    }
    this.#last = this.#box.scrollTop;
    this.#changed();
  }
}
