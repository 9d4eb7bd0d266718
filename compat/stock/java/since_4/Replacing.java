import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.common.config.ConfigResource;

/** The old AlterConfigs went with 4.0; the manifest lets nobody ask for it. */
final class Replacing {
    private Replacing() {}

    static void configs(AdminClient admin, ConfigResource resource, JsonNode options) {
        throw new UnsupportedOperationException("replace_configs");
    }
}
