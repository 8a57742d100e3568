import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Formats a directory as Kafka's own storage tool does, for a cluster and one topic whose ids, directory and leader are given: a Kafka that never
 * was on this directory and to which all of it is nevertheless its own.
 *
 *   DIRECTORY NODE CLUSTER-ID TOPIC TOPIC-ID DIRECTORY-ID LEADER-EPOCH [KEY=VALUE]...
 */
public class FormatWithTopic {
    private static ApiMessageAndVersion topic(String name, Uuid id) {
        return new ApiMessageAndVersion(new TopicRecord().setName(name).setTopicId(id), (short) 0);
    }

    /* The one in sync, which led: when it comes and was not stopped cleanly it is out of sync, and leads again as the last leader that was known. */
    private static ApiMessageAndVersion partition(Uuid topic, int node, Uuid directory, int epoch) {
        PartitionRecord record = new PartitionRecord().setPartitionId(0).setTopicId(topic).setReplicas(List.of(node)).setIsr(List.of(node)).setLeader(node)
            .setLeaderEpoch(epoch).setPartitionEpoch(epoch).setDirectories(List.of(directory));
        return new ApiMessageAndVersion(record, MetadataVersion.latestProduction().partitionRecordVersion());
    }

    public static void main(String[] args) throws Exception {
        int node = Integer.parseInt(args[1]);
        Uuid topic = Uuid.fromString(args[4]);
        List<ApiMessageAndVersion> records = new ArrayList<>();
        records.add(topic(args[3], topic));
        records.add(partition(topic, node, Uuid.fromString(args[5]), Integer.parseInt(args[6])));
        for (int i = 7; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            records.add(new ApiMessageAndVersion(new ConfigRecord().setResourceType(ConfigResource.Type.TOPIC.id()).setResourceName(args[3]).setName(pair[0]).setValue(pair[1]), (short) 0));
        }
        new Formatter().setNodeId(node).setClusterId(args[2]).setSupportedFeatures(Feature.PRODUCTION_FEATURES).setControllerListenerName("CONTROLLER")
            .setMetadataLogDirectory(args[0]).addDirectory(args[0]).setHasDynamicQuorum(false).setWriteBootstrapSnapshot(true).setAdditionalBootstrapRecords(records).run();
    }
}
