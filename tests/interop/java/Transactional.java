import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;

/** Transactional producers that say what became of each transaction: a line "name fate partition:value ..." for each.
 *  Arguments: bootstrap, topic, partitions, threads, seconds. Run from source: java -cp "build/jars/*" Transactional.java ... */
public class Transactional {
    static final class Writer extends Thread {
        final String bootstrap, topic;
        final int partitions, number;
        final long end;
        final Random random;

        Writer(String bootstrap, String topic, int partitions, int number, long end) {
            this.bootstrap = bootstrap;
            this.topic = topic;
            this.partitions = partitions;
            this.number = number;
            this.end = end;
            this.random = new Random(number);
        }

        KafkaProducer<String, String> producer() {
            Properties settings = new Properties();
            settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
            settings.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, topic + "-java-" + number);
            settings.put(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, 10000);
            settings.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, 10000);
            settings.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, 5000);
            settings.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, 20000);
            settings.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, "org.apache.kafka.common.serialization.StringSerializer");
            settings.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, "org.apache.kafka.common.serialization.StringSerializer");
            for (int tries = 0;; tries++) {
                KafkaProducer<String, String> made = new KafkaProducer<>(settings);
                try {
                    made.initTransactions();
                    return made;
                } catch (KafkaException e) {
                    made.close(Duration.ZERO);
                    if (tries > 20) {
                        throw e;
                    }
                }
            }
        }

        /** Again while the answer may still come: the outcome is not known before. */
        static void settle(Runnable act) {
            for (int tries = 0;; tries++) {
                try {
                    act.run();
                    return;
                } catch (TimeoutException | InterruptException e) {
                    if (tries > 20) {
                        throw e;
                    }
                }
            }
        }

        @Override
        public void run() {
            KafkaProducer<String, String> made = producer();
            for (int count = 1; System.currentTimeMillis() < end; count++) {
                String name = "j" + number + "-" + count;
                List<String> sent = new ArrayList<>();
                boolean commit = random.nextInt(5) > 0;
                String fate = "aborted";
                try {
                    made.beginTransaction();
                    for (int i = random.nextInt(8); i >= 0; i--) {
                        int partition = random.nextInt(partitions);
                        sent.add(partition + ":" + name + "-" + i);
                        made.send(new ProducerRecord<>(topic, partition, null, name + "-" + i));
                    }
                    if (commit) {
                        fate = "unknown";
                        settle(made::commitTransaction);
                        fate = "committed";
                    } else {
                        settle(made::abortTransaction);
                    }
                } catch (KafkaException e) {
                    try {
                        settle(made::abortTransaction);
                        fate = "aborted";
                    } catch (KafkaException | IllegalStateException fatal) {
                        made.close(Duration.ZERO);
                        made = producer();
                        fate = fate.equals("unknown") ? "unknown" : "aborted";
                    }
                }
                synchronized (System.out) {
                    System.out.println("T " + name + " " + fate + " " + String.join(" ", sent));
                }
            }
            made.close(Duration.ofSeconds(5));
        }
    }

    public static void main(String[] args) throws Exception {
        long end = System.currentTimeMillis() + Long.parseLong(args[4]) * 1000;
        List<Writer> writers = new ArrayList<>();
        for (int i = 0; i < Integer.parseInt(args[3]); i++) {
            writers.add(new Writer(args[0], args[1], Integer.parseInt(args[2]), i, end));
        }
        for (Writer writer : writers) {
            writer.start();
        }
        for (Writer writer : writers) {
            writer.join();
        }
        System.out.println("DONE");
    }
}
