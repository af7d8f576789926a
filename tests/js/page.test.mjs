import assert from 'node:assert/strict';
import { test } from 'node:test';

import { BrowserPage } from '../../static/gateway/page.js';

/** Put values where a browser has its own, for one test. */
function browser(context, values) {
  for (const [name, value] of Object.entries(values)) {
    const before = Object.getOwnPropertyDescriptor(globalThis, name);
    Object.defineProperty(globalThis, name, { value, configurable: true });
    context.after(() => {
      if (before === undefined) delete globalThis[name];
      else Object.defineProperty(globalThis, name, before);
    });
  }
}

test('it tells what the browser says, and of its changes until it is stopped', (context) => {
  const document = Object.assign(new EventTarget(), { visibilityState: 'visible' });
  const [window, navigator] = [new EventTarget(), { onLine: true }];
  browser(context, { document, window, navigator });
  const page = new BrowserPage();
  const heard = [];
  const stop = page.watch(() => heard.push([page.visible, page.online]));
  document.visibilityState = 'hidden';
  document.dispatchEvent(new Event('visibilitychange'));
  navigator.onLine = false;
  window.dispatchEvent(new Event('offline'));
  navigator.onLine = true;
  window.dispatchEvent(new Event('online'));
  stop();
  document.dispatchEvent(new Event('visibilitychange'));
  assert.deepEqual(heard, [
    [false, true],
    [false, false],
    [false, true],
  ]);
});

test('outside of a browser a page is visible and online', (context) => {
  browser(context, { document: undefined, window: undefined, navigator: undefined });
  const page = new BrowserPage();
  assert.deepEqual([page.visible, page.online], [true, true]);
  page.watch(() => assert.fail('nothing changes'))();
});
