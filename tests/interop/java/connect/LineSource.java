import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.*;

/** The whole lines of a file, each a record; where it has come to is the source offset that Connect keeps. */
public class LineSource extends SourceConnector {
    private Map<String, String> config;

    public void start(Map<String, String> config) { this.config = config; }
    public void stop() { }
    public String version() { return "1"; }
    public Class<? extends Task> taskClass() { return LineTask.class; }
    public List<Map<String, String>> taskConfigs(int max) { return List.of(config); }
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> config) { return ExactlyOnceSupport.SUPPORTED; }
    public ConfigDef config() {
        return new ConfigDef().define("file", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "read").define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "written");
    }

    public static class LineTask extends SourceTask {
        private String file, topic;
        private long pos;

        public String version() { return "1"; }
        public void start(Map<String, String> config) {
            file = config.get("file");
            topic = config.get("topic");
            Map<String, Object> kept = context.offsetStorageReader().offset(Map.of("file", file));
            pos = kept == null ? 0 : (Long) kept.get("pos");
        }
        public void stop() { }
        public List<SourceRecord> poll() throws InterruptedException {
            List<SourceRecord> records = new ArrayList<>();
            try (RandomAccessFile in = new RandomAccessFile(file, "r")) {
                byte[] bytes = new byte[(int) Math.min(4096, Math.max(0, in.length() - pos))];
                in.seek(pos);
                in.readFully(bytes);
                int start = 0;
                for (int i = 0; i < bytes.length; i++) {
                    if (bytes[i] != '\n') continue;
                    String line = new String(bytes, start, i - start, StandardCharsets.UTF_8);
                    start = i + 1;
                    records.add(new SourceRecord(Map.of("file", file), Map.of("pos", pos + start), topic, null, Schema.STRING_SCHEMA, line));
                }
                pos += start;
            } catch (IOException e) {
                throw new org.apache.kafka.connect.errors.RetriableException(e);
            }
            if (!records.isEmpty()) return records;
            Thread.sleep(50);
            return null;
        }
    }
}
