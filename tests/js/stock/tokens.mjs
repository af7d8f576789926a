// The stock `centrifuge` client with tokens. It asks for each on stdout, {"event": "wanted", "topic"?}, and reads it from
// its next line of stdin; on stdout it says what happens to it. Arguments: URL, topic.

import { createInterface } from 'node:readline'

import { Centrifuge } from 'centrifuge'
import { WebSocket } from 'ws'

const [url, topic] = process.argv.slice(2)

const say = (event, detail) => process.stdout.write(JSON.stringify({ event, ...detail }) + '\n')

const waiting = []
const getToken = ({ channel } = {}) => {
  say('wanted', channel === undefined ? {} : { topic: channel })
  return new Promise((resolve) => waiting.push(resolve))
}

const client = new Centrifuge(url, { websocket: WebSocket, getToken, minReconnectDelay: 20, maxReconnectDelay: 100 })
client.on('connected', () => say('connected', {}))
client.on('connecting', (context) => say('connecting', { code: context.code }))
client.on('disconnected', (context) => say('disconnected', { code: context.code }))

const subscription = client.newSubscription(topic, { getToken, minResubscribeDelay: 20, maxResubscribeDelay: 100 })
subscription.on('subscribed', () => say('subscribed', {}))
subscription.on('subscribing', (context) => say('subscribing', { code: context.code }))
subscription.on('unsubscribed', (context) => say('unsubscribed', { code: context.code }))
subscription.on('publication', (context) => say('publication', { data: context.data }))

subscription.subscribe()
client.connect()

for await (const line of createInterface({ input: process.stdin })) waiting.shift()(line)
process.exit(0)
