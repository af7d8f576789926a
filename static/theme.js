// Runs before the first paint, so a stored theme never flashes; a module would come too late.
'use strict';
{
  let theme = null;
  try {
    theme = localStorage.getItem('gateway.theme');
  } catch {
    // Storage is blocked: the system's theme stays.
  }
  if (theme === 'dark' || theme === 'light') document.documentElement.dataset.theme = theme;
}
