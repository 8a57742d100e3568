// consumer.js PROTO-FOLDER HOST:PORT GROUP TOPIC: be a member of a consumer group: print the records of the partitions that are given to it, and acknowledge them.
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const [folder, address, group, topic] = process.argv.slice(2);
const types = loader.loadSync('ottla/v1/log.proto', { includeDirs: [folder], longs: String, enums: String, defaults: true });
const log = new (grpc.loadPackageDefinition(types).ottla.v1.Log)(address, grpc.credentials.createInsecure());

const stream = log.Consume();
stream.write({ join: { group, topics: [topic], start: 'START_EARLIEST' } });
stream.on('data', (message) => {
  for (const record of message.records) console.log(message.position.partition, record.offset, record.value.toString());
  if (message.position) stream.write({ acknowledge: [message.position] });
});
stream.on('error', (problem) => {
  console.error(problem.code, problem.details);
  process.exit(1);
});
