/** The list on the left and the run panel on the right: beside the conversation where there is room, over it where not. */

/** @type {Map<string, string>} */
const WIDE = new Map([
  ['list', '(min-width: 820px)'],
  ['panel', '(min-width: 1280px)'],
]);

export class Drawers {
  #app;
  #storage;
  #parts;

  /**
   * @param {HTMLElement} app
   * @param {{list: HTMLElement, panel: HTMLElement, veil: HTMLElement, buttons: {list: HTMLElement[], panel: HTMLElement[]}}} parts
   * @param {Pick<Storage, 'getItem'|'setItem'>} storage
   */
  constructor(app, parts, storage) {
    this.#app = app;
    this.#parts = parts;
    this.#storage = storage;
    for (const name of /** @type {const} */ (['list', 'panel'])) {
      for (const button of parts.buttons[name]) button.addEventListener('click', () => this.toggle(name));
      if (this.#stored(name) === 'hidden') app.classList.add(`no-${name}`);
      matchMedia(WIDE.get(name) ?? '').addEventListener('change', () => this.#say());
    }
    parts.veil.addEventListener('click', () => this.close());
    this.#say();
  }

  /** @param {'list'|'panel'} name */
  toggle(name) {
    if (this.#wide(name)) {
      const hidden = this.#app.classList.toggle(`no-${name}`);
      try {
        this.#storage.setItem(`gateway.${name}`, hidden ? 'hidden' : 'shown');
      } catch {
        // The choice lives as long as the page.
      }
    } else {
      const opened = !this.#app.classList.contains(`open-${name}`);
      this.#app.classList.remove('open-list', 'open-panel');
      this.#app.classList.toggle(`open-${name}`, opened);
    }
    this.#say();
    if (this.#shows(name) && !this.#wide(name)) /** @type {HTMLElement|null} */ (this.#parts[name].querySelector('button, a'))?.focus();
    else if (document.activeElement !== null && this.#parts[name].contains(document.activeElement)) this.#parts.buttons[name][0].focus();
  }

  /** Opens the list where it is closed. @param {'list'|'panel'} name */
  show(name) {
    if (!this.#shows(name)) this.toggle(name);
  }

  /** @returns {boolean} whether something was open over the conversation */
  close() {
    const open = this.#app.classList.contains('open-list') ? 'list' : this.#app.classList.contains('open-panel') ? 'panel' : null;
    if (open === null) return false;
    this.toggle(/** @type {'list'|'panel'} */ (open));
    return true;
  }

  /** @param {'list'|'panel'} name */
  #wide(name) {
    return matchMedia(WIDE.get(name) ?? '').matches;
  }

  /** @param {'list'|'panel'} name */
  #shows(name) {
    return this.#wide(name) ? !this.#app.classList.contains(`no-${name}`) : this.#app.classList.contains(`open-${name}`);
  }

  #say() {
    for (const name of /** @type {const} */ (['list', 'panel'])) {
      for (const button of this.#parts.buttons[name]) button.setAttribute('aria-expanded', String(this.#shows(name)));
    }
  }

  /** @param {string} name */
  #stored(name) {
    try {
      return this.#storage.getItem(`gateway.${name}`);
    } catch {
      return null;
    }
  }
}
