// Runs before the page is painted, so that it does not flash in the other colours.
(() => {
  let saved = null;
  try {
    saved = localStorage.getItem('dovetail-theme');
  } catch {
    // Storage can be switched off; then the choice lasts as long as the page.
  }
  if (saved === 'light' || saved === 'dark') document.documentElement.dataset.theme = saved;
})();
