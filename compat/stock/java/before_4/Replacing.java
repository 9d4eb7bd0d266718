import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.config.ConfigResource;

/** The old AlterConfigs, which the library had until 4.0. */
final class Replacing {
    private Replacing() {}

    static void configs(AdminClient admin, ConfigResource resource, JsonNode options) throws Exception {
        List<ConfigEntry> entries = Lines.pairs(options.get("set")).entrySet().stream()
            .map(it -> new ConfigEntry(it.getKey(), it.getValue()))
            .collect(Collectors.toList());
        admin.alterConfigs(Map.of(resource, new Config(entries))).all().get();
    }
}
