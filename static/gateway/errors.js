/**
 * Every error of the library:
 *
 *     GatewayError                {code, message, temporary}
 *     ├── CommandError            an error reply; its code is the gateway's
 *     ├── CommandTimeoutError     no reply in time; whether it was carried out is not known
 *     ├── ConnectionLostError     the connection ended before the reply; whether it was carried out is not known
 *     ├── NotConnectedError       there was no connection in time, or there will be none; it was not sent
 *     ├── TooLargeError           above what the gateway accepts in a frame; it was not sent
 *     ├── TokenError              the token function failed
 *     ├── FrameError              the gateway sent what is no protocol
 *     └── SnapshotError           a snapshot that is none
 */

/** Codes of error replies (PROTOCOL.md 6). */
export const ErrorCode = Object.freeze({
  INTERNAL: 100,
  UNAUTHORIZED: 101,
  UNKNOWN_TOPIC: 102,
  PERMISSION_DENIED: 103,
  METHOD_NOT_FOUND: 104,
  ALREADY_SUBSCRIBED: 105,
  LIMIT_EXCEEDED: 106,
  BAD_REQUEST: 107,
  NOT_AVAILABLE: 108,
  TOKEN_EXPIRED: 109,
  TOO_MANY_REQUESTS: 111,
  UNRECOVERABLE_POSITION: 112,
  CONFLICT: 409,
});

/** Codes of errors that arise on this side of the wire; below all of the gateway's. */
export const LocalCode = Object.freeze({
  TIMEOUT: 1,
  CONNECTION_LOST: 2,
  NOT_CONNECTED: 3,
  TOO_LARGE: 4,
  TOKEN: 5,
  FRAME: 6,
  SNAPSHOT: 7,
});

export class GatewayError extends Error {
  /**
   * @param {number} code of `ErrorCode` or `LocalCode`
   * @param {string} message a reason for people
   * @param {{ temporary?: boolean, cause?: unknown }} [facts] `temporary`: the same thing can succeed later
   */
  constructor(code, message, { temporary = false, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.code = code;
    this.temporary = temporary;
  }
}

export class CommandError extends GatewayError {}

export class CommandTimeoutError extends GatewayError {
  /**
   * @param {string} method
   * @param {number} ms how long it waited
   */
  constructor(method, ms) {
    super(LocalCode.TIMEOUT, `no reply to ${method} within ${ms / 1000} s; it may have been carried out`, {
      temporary: true,
    });
  }
}

export class ConnectionLostError extends GatewayError {
  /** @param {string} method */
  constructor(method) {
    super(
      LocalCode.CONNECTION_LOST,
      `the connection ended before the reply to ${method}; it may have been carried out`,
      { temporary: true },
    );
  }
}

export class NotConnectedError extends GatewayError {
  /**
   * @param {string} why
   * @param {{ temporary: boolean, cause?: unknown }} facts
   */
  constructor(why, { temporary, cause }) {
    super(LocalCode.NOT_CONNECTED, why, { temporary, cause });
  }
}

export class TooLargeError extends GatewayError {
  /**
   * @param {number} bytes
   * @param {number} limit bytes
   */
  constructor(bytes, limit) {
    super(LocalCode.TOO_LARGE, `a command may have ${limit} bytes, this one has ${bytes}; it was not sent`);
  }
}

export class TokenError extends GatewayError {
  /** @param {unknown} cause */
  constructor(cause) {
    super(LocalCode.TOKEN, 'the token function failed', { temporary: true, cause });
  }
}

export class FrameError extends GatewayError {
  /**
   * @param {string} what
   * @param {unknown} [cause]
   */
  constructor(what, cause) {
    super(LocalCode.FRAME, `expected lines of JSON objects from the gateway, got ${what}`, { temporary: true, cause });
  }
}

export class SnapshotError extends GatewayError {
  /**
   * @param {string} what what was expected and what came
   * @param {unknown} [cause]
   */
  constructor(what, cause) {
    super(LocalCode.SNAPSHOT, `not a snapshot: ${what}`, { cause });
  }
}
