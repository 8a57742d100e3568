// A member of a group of the new protocol (KIP-848), in pure JavaScript: says what it has and what it reads, as tests/integration/group_member.py does.
// usage: node group_member.mjs BOOTSTRAP GROUP TOPIC; packages are looked for in NODE_MODULES
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [bootstrap, group, topic] = process.argv.slice(2)
const found = createRequire(process.env.NODE_MODULES + '/').resolve('@platformatic/kafka')
const { Consumer, stringDeserializers } = await import(pathToFileURL(found).href)

const consumer = new Consumer({ clientId: 'ottla-node', groupId: group, bootstrapBrokers: [bootstrap], groupProtocol: 'consumer', deserializers: stringDeserializers, maxWaitTime: 200 })
let told = null
function tell() {
  const has = (consumer.assignments ?? []).filter((a) => a.topic === topic).flatMap((a) => a.partitions).sort((a, b) => a - b).join(',')
  if (has !== told) console.log('has', has)
  told = has
}
consumer.on('error', (error) => console.error(error))
const stream = await consumer.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest', autocommit: 200 })
const watching = setInterval(tell, 50)
process.on('SIGTERM', async () => {
  clearInterval(watching)
  await consumer.close(true)
  process.exit(0)
})
for await (const message of stream) console.log('read', message.topic, message.partition, String(message.offset))
