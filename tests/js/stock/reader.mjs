// The stock `centrifuge` client, driven line by line: it says on stdout what happens to it.
// Arguments: URL, topic, and the subscription's data as JSON; "mirror" stands for {"mirror": true}.

import { Centrifuge } from 'centrifuge'
import { WebSocket } from 'ws'

const [url, topic, mode] = process.argv.slice(2)

const say = (event, detail) => process.stdout.write(JSON.stringify({ event, ...detail }) + '\n')

const client = new Centrifuge(url, { websocket: WebSocket, minReconnectDelay: 20, maxReconnectDelay: 100 })
client.on('connected', (context) => say('connected', { data: context.data }))
client.on('connecting', (context) => say('connecting', { code: context.code }))
client.on('disconnected', (context) => say('disconnected', { code: context.code }))
client.on('message', (context) => say('message', { data: context.data }))

const subscription = client.newSubscription(topic, {
  data: mode === 'mirror' ? { mirror: true } : mode && JSON.parse(mode),
  minResubscribeDelay: 20,
  maxResubscribeDelay: 100,
})
subscription.on('subscribed', (context) =>
  say('subscribed', {
    wasRecovering: context.wasRecovering,
    recovered: context.recovered,
    position: context.streamPosition,
    data: context.data,
  }),
)
subscription.on('subscribing', (context) => say('subscribing', { code: context.code }))
subscription.on('unsubscribed', (context) => say('unsubscribed', { code: context.code }))
subscription.on('error', (context) => say('error', { code: context.error.code }))
subscription.on('publication', (context) => say('publication', { offset: context.offset, data: context.data }))

subscription.subscribe()
client.connect()

// The test ends this process by closing its stdin.
process.stdin.resume()
process.stdin.on('end', () => process.exit(0))
