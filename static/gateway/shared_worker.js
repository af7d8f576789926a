/** The shared worker: one for all tabs of an origin that load the same version of the library. */

import { Relay } from './relay.js';

const relay = new Relay();
/** @type {any} */ (globalThis).onconnect = (/** @type {MessageEvent} */ { ports: [port] }) => relay.join(port);
