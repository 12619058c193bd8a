import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;

/** Reads each line of a file as a sink of Kafka Connect does, by the converter's defaults, and prints what it has become. */
public class ReadConnect {
    public static void main(String[] args) throws Exception {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of(), false);
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            SchemaAndValue read = converter.toConnectData("topic", line.getBytes(StandardCharsets.UTF_8));
            if (read.value() instanceof Struct) {
                ((Struct) read.value()).validate();
            }
            System.out.println(read.value() instanceof Map ? new TreeMap<>((Map<?, ?>) read.value()) : read.value());
        }
    }
}
