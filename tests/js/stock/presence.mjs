// The stock `centrifuge` client as one that asks who is present. It says on stdout what it is told; each line on its
// stdin is a question: "presence" or "stats". Arguments: URL, topic.

import { createInterface } from 'node:readline'

import { Centrifuge } from 'centrifuge'
import { WebSocket } from 'ws'

const [url, topic] = process.argv.slice(2)

const say = (event, detail) => process.stdout.write(JSON.stringify({ event, ...detail }) + '\n')

const client = new Centrifuge(url, { websocket: WebSocket })
const subscription = client.newSubscription(topic, { joinLeave: true })
subscription.on('subscribed', () => say('subscribed', {}))
subscription.on('join', (context) => say('join', { info: context.info }))
subscription.on('leave', (context) => say('leave', { info: context.info }))

subscription.subscribe()
client.connect()

for await (const question of createInterface({ input: process.stdin })) {
  if (question === 'presence') say('presence', { clients: (await subscription.presence()).clients })
  else {
    const { numClients, numUsers } = await subscription.presenceStats()
    say('stats', { numClients, numUsers })
  }
}
process.exit(0)
