/**
 * What the library takes from the platform.
 * @typedef {object} Environment
 * @property {new (url: string) => WebSocket} WebSocket
 * @property {() => number} random from 0 up to, without, 1
 * @property {() => number} now ms
 * @property {(run: () => void, ms: number) => any} setTimeout
 * @property {(timer: any) => void} clearTimeout
 */

/**
 * What topics and commands need of their gateway, as it is now.
 * @typedef {object} Host
 * @property {Environment} environment
 * @property {import('./connection.js').Connection | null} connection null while there is none that takes commands
 * @property {import('./index.js').GatewayState} state
 * @property {{ code: number, reason: string } | null} refusal
 * @property {boolean} sure
 * @property {(subscription: import('./subscription.js').Subscription) => void} touched it is told when the frame ends
 * @property {(subscription: import('./subscription.js').Subscription) => void} released nobody wants it any more
 * @property {(error: import('./errors.js').GatewayError) => void} report
 * @property {(method: string, parameters: Record<string, any>) => Promise<Record<string, any>>} ask a command that may
 *   be sent again
 */

export {};
