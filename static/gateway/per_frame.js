/**
 * Act at most once an animation frame, however often it is asked for. A hidden page has no frames: then it happens once,
 * when the page is seen again.
 * @param {() => void} act
 * @param {(run: () => void) => unknown} [schedule] `requestAnimationFrame` by default; outside of a browser a timer of 16 ms
 * @returns {() => void} asks for it
 */
export function perFrame(act, schedule = globalThis.requestAnimationFrame ?? ((run) => globalThis.setTimeout(run, 16))) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    schedule(() => {
      asked = false;
      act();
    });
  };
}
