import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.*;

/** Each record a line at the end of a file. */
public class LineSink extends SinkConnector {
    private Map<String, String> config;

    public void start(Map<String, String> config) { this.config = config; }
    public void stop() { }
    public String version() { return "1"; }
    public Class<? extends Task> taskClass() { return LineTask.class; }
    public List<Map<String, String>> taskConfigs(int max) { return Collections.nCopies(max, config); }
    public ConfigDef config() { return new ConfigDef().define("file", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "written"); }

    public static class LineTask extends SinkTask {
        private String file;

        public String version() { return "1"; }
        public void start(Map<String, String> config) { file = config.get("file"); }
        public void stop() { }
        public void put(Collection<SinkRecord> records) {
            StringBuilder lines = new StringBuilder();
            for (SinkRecord record : records) lines.append(record.value()).append('\n');
            if (lines.length() == 0) return;
            try (FileOutputStream out = new FileOutputStream(file, true)) {
                out.write(lines.toString().getBytes(StandardCharsets.UTF_8));
            } catch (IOException e) {
                throw new org.apache.kafka.connect.errors.RetriableException(e);
            }
        }
    }
}
