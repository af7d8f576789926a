/**
 * Turns dark to light and back, and remembers it.
 * @param {HTMLElement} button
 * @param {Pick<Storage, 'setItem'>} storage
 */
export function listenToTheme(button, storage) {
  button.addEventListener('click', () => {
    const root = document.documentElement;
    const dark = root.dataset.theme === undefined ? matchMedia('(prefers-color-scheme: dark)').matches : root.dataset.theme === 'dark';
    root.dataset.theme = dark ? 'light' : 'dark';
    try {
      storage.setItem('gateway.theme', root.dataset.theme);
    } catch {
      // The choice lives as long as the page.
    }
  });
}
