/**
 * One paint an animation frame. Parts of the page say that they are dirty; in the next frame each draws what it has to,
 * within one budget, and what is left over goes to the frame after.
 */

/** How long painting may take in a frame, in ms. */
const BUDGET_MS = 8;

export class Painter {
  /** @type {Set<Chat.Part>} */
  #dirty = new Set();
  #frame = 0;

  /** @param {Chat.Part} part */
  mark(part) {
    this.#dirty.add(part);
    // In a hidden tab no frame comes, so nothing is painted; the one that comes on return paints the final state.
    if (this.#frame === 0) this.#frame = requestAnimationFrame(() => this.#paint());
  }

  #paint() {
    this.#frame = 0;
    const deadline = performance.now() + BUDGET_MS;
    const parts = [...this.#dirty];
    this.#dirty.clear();
    for (const part of parts) if (!part.paint(deadline)) this.mark(part);
  }
}
