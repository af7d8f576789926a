// The stock `centrifuge` client with subscriptions that its token names: says on stdout what happens in them, until stdin
// ends. Arguments: URL, token.

import { Centrifuge } from 'centrifuge'
import { WebSocket } from 'ws'

const [url, token] = process.argv.slice(2)

const say = (event, detail) => process.stdout.write(JSON.stringify({ event, ...detail }) + '\n')

const client = new Centrifuge(url, { websocket: WebSocket, token, minReconnectDelay: 20, maxReconnectDelay: 100 })
client.on('connected', () => say('connected', {}))
client.on('connecting', (context) => say('connecting', { code: context.code }))
client.on('disconnected', (context) => say('disconnected', { code: context.code }))
client.on('subscribed', ({ channel, wasRecovering, recovered, streamPosition, data }) =>
  say('subscribed', { topic: channel, wasRecovering, recovered, offset: streamPosition.offset, grants: data.grants }),
)
client.on('unsubscribed', ({ channel }) => say('unsubscribed', { topic: channel }))
client.on('publication', ({ channel, offset, data }) => say('publication', { topic: channel, offset, data }))

client.connect()

process.stdin.on('end', () => process.exit(0))
process.stdin.resume()
