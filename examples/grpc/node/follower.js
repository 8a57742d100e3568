// follower.js PROTO-FOLDER HOST:PORT TOPIC: append "from node" and print every record from the first one on.
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const [folder, address, topic] = process.argv.slice(2);
const types = loader.loadSync('ottla/v1/log.proto', { includeDirs: [folder], longs: Number, enums: String, defaults: true });
const log = new (grpc.loadPackageDefinition(types).ottla.v1.Log)(address, grpc.credentials.createInsecure());

log.Produce({ topic, records: [{ value: Buffer.from('from node') }] }, (error, answer) => {
  if (error) throw error;
  console.log('record', answer.baseOffset);
  const stream = log.Subscribe({ partitions: [{ topic, partition: -1, start: 'START_EARLIEST' }] });
  stream.on('data', (message) => {
    for (const record of message.records) console.log(message.partition, record.offset, record.value.toString());
  });
  stream.on('error', (problem) => {
    console.error(problem.code, problem.details);
    process.exit(1);
  });
});
