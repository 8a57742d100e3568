// kafkajs without any version setting: create a topic, produce, read the offsets back. Prints one JSON line.
// usage: NODE_PATH=.../node_modules node kafkajs.js BOOTSTRAP TOPIC CODEC(none|gzip) COUNT
const { Kafka, CompressionTypes, logLevel } = require('kafkajs')
const [bootstrap, topic, codec, count] = process.argv.slice(2)

async function main() {
  const kafka = new Kafka({ clientId: 'ottla-kafkajs', brokers: [bootstrap], logLevel: logLevel.ERROR })
  const admin = kafka.admin()
  await admin.connect()
  const cluster = await admin.describeCluster()
  await admin.createTopics({ topics: [{ topic, numPartitions: 2, replicationFactor: 1 }], waitForLeaders: true })
  const producer = kafka.producer({ idempotent: codec === 'none', maxInFlightRequests: 1 })
  await producer.connect()
  const messages = [...Array(Number(count)).keys()].map((i) => ({ partition: i % 2, key: `k${i}`, value: `v${i}`, headers: { n: `${i}` } }))
  const compression = codec === 'gzip' ? CompressionTypes.GZIP : CompressionTypes.None
  const sent = await producer.send({ topic, compression, messages, acks: -1 })
  const offsets = await admin.fetchTopicOffsets(topic)
  const byTime = await admin.fetchTopicOffsetsByTimestamp(topic, 1)
  const metadata = await admin.fetchTopicMetadata({ topics: [topic] })
  await producer.disconnect()
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '1' }] })
  const after = await admin.fetchTopicOffsets(topic)
  await admin.deleteTopics({ topics: [topic] })
  await admin.disconnect()
  console.log(JSON.stringify({ brokers: cluster.brokers, sent, offsets, byTime, partitions: metadata.topics[0].partitions.length, after }))
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
