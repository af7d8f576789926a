export {
  CommandError,
  CommandTimeoutError,
  ConnectionLostError,
  ErrorCode,
  FrameError,
  GatewayError,
  LocalCode,
  NotConnectedError,
  SnapshotError,
  TokenError,
  TooLargeError,
} from './errors.js';
export { Gateway } from './gateway.js';
export { merge } from './merge.js';
export { Mirror } from './mirror.js';
export { perFrame } from './per_frame.js';
export { costOf } from './prices.js';
export { store } from './store.js';
