import java.io.IOException;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Kafka's idempotent producer with acks=all, until its input ends. Says BEGUN when its first record is acknowledged; at the end a line "A partition offset value" for each acknowledged record, "F words" for each that failed, and DONE.
 *  Arguments: bootstrap, topic, partitions, records a second, prefix of the values. Run from source: java -cp "build/jars/*" Load.java ... */
public class Load {
    public static void main(String[] args) throws Exception {
        int partitions = Integer.parseInt(args[2]), perSecond = Integer.parseInt(args[3]);
        Properties settings = new Properties();
        settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(ProducerConfig.ACKS_CONFIG, "all");
        settings.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true);
        settings.put(ProducerConfig.LINGER_MS_CONFIG, 5);
        settings.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, 120000);
        settings.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, 3000);
        settings.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, 120000);
        settings.put(ProducerConfig.RECONNECT_BACKOFF_MAX_MS_CONFIG, 500);
        settings.put(ProducerConfig.METADATA_MAX_AGE_CONFIG, 2000);
        settings.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, "org.apache.kafka.common.serialization.StringSerializer");
        settings.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, "org.apache.kafka.common.serialization.StringSerializer");
        ConcurrentLinkedQueue<String> said = new ConcurrentLinkedQueue<>();
        AtomicBoolean begun = new AtomicBoolean(), ended = new AtomicBoolean();
        Thread watch = new Thread(() -> {
            try {
                System.in.read();
            } catch (IOException gone) {
                // as an end
            }
            ended.set(true);
        });
        watch.setDaemon(true);
        watch.start();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            for (long number = 0; !ended.get(); number++) {
                String value = args[4] + ":" + number + ":";
                int partition = (int) (number % partitions);
                try {
                    producer.send(new ProducerRecord<>(args[1], partition, null, value), (at, failure) -> {
                        said.add(failure != null ? "F " + System.currentTimeMillis() + " " + value + " " + failure : "A " + at.partition() + " " + at.offset() + " " + value);
                        if (failure == null && begun.compareAndSet(false, true)) System.out.println("BEGUN");
                    });
                } catch (RuntimeException failure) {
                    said.add("F " + failure);
                }
                Thread.sleep(1000 / perSecond);
            }
            producer.flush();
        }
        StringBuilder out = new StringBuilder();
        said.forEach(line -> out.append(line).append('\n'));
        System.out.print(out);
        System.out.println("DONE");
    }
}
