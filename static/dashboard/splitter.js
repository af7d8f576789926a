const STORED = 'gateway.run-split';

/** The height of the timeline, as part of what it shares with the log; it is remembered. */
export class Splitter {
  #handle;
  #stack;
  #storage;
  #part = 58;

  /**
   * @param {HTMLElement} handle
   * @param {HTMLElement} stack
   * @param {Pick<Storage, 'getItem'|'setItem'>} storage
   */
  constructor(handle, stack, storage) {
    this.#handle = handle;
    this.#stack = stack;
    this.#storage = storage;
    const stored = Number(storage.getItem(STORED) ?? '');
    this.#set(stored >= 15 && stored <= 85 ? stored : this.#part);
    let dragging = false;
    handle.addEventListener('pointerdown', (event) => {
      dragging = true;
      handle.setPointerCapture(event.pointerId);
    });
    handle.addEventListener('pointermove', ({ clientY }) => {
      if (!dragging) return;
      const { top, height } = stack.getBoundingClientRect();
      this.#set(((clientY - top) / Math.max(1, height)) * 100);
    });
    for (const name of ['pointerup', 'pointercancel'])
      handle.addEventListener(name, () => {
        dragging = false;
        this.#keep();
      });
    handle.addEventListener('keydown', (event) => {
      const by = event.key === 'ArrowUp' ? -4 : event.key === 'ArrowDown' ? 4 : 0;
      if (by === 0) return;
      event.preventDefault();
      this.#set(this.#part + by);
      this.#keep();
    });
  }

  /** @param {number} part - in percent */
  #set(part) {
    this.#part = Math.min(85, Math.max(15, part));
    this.#stack.style.setProperty('--fall', `${this.#part}%`);
    this.#handle.setAttribute('aria-valuenow', String(Math.round(this.#part)));
  }

  #keep() {
    try {
      this.#storage.setItem(STORED, String(Math.round(this.#part)));
    } catch {
      // The choice lives as long as the page.
    }
  }
}
