/** The page's keys. Single letters are off while someone types, and can be switched off altogether. */

const STORED = 'gateway.letter-keys';

/**
 * @param {Chat.ListenToKeysOptions} options
 */
export function listenToKeys({ letters, escape, end, dialog, toggle, storage }) {
  try {
    toggle.checked = storage.getItem(STORED) !== 'off';
  } catch {
    // Storage is blocked: they are on.
  }
  toggle.addEventListener('change', () => {
    try {
      storage.setItem(STORED, toggle.checked ? 'on' : 'off');
    } catch {
      // The choice lives as long as the page.
    }
  });
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    const at = /** @type {HTMLElement} */ (event.target);
    const typing = at.matches('input, textarea, select, [contenteditable]');
    if (event.key === 'Escape') {
      // In a field of its own it leaves that; the message box stands for the page.
      if (at.matches('input')) at.blur();
      else if (!event.isComposing && escape(event.shiftKey)) event.preventDefault();
    } else if (event.key === 'End' && !typing) {
      end();
    } else if (!typing && toggle.checked) {
      const act = letters.get(event.key.toLowerCase());
      if (act === undefined) return;
      event.preventDefault();
      act();
    }
  });
}
