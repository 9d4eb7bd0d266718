import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Collection;
import java.util.List;
import java.util.Optional;

/**
 * Prints the API versions and features that a broker advertises, for each given directory of jars of a
 * release: one line "release<TAB>which<TAB>lowest<TAB>highest" per API key and feature.
 *
 * <p>The methods that return them differ between releases.
 */
public final class ApiRanges {
    private static final String PROTOCOL = "org.apache.kafka.common.protocol.";
    private static final String COMMON = "org.apache.kafka.server.common.";
    private static final String LISTENER = "org.apache.kafka.common.message.ApiMessageType$ListenerType";

    private final String release;
    private final ClassLoader classes;

    private ApiRanges(String release, ClassLoader classes) {
        this.release = release;
        this.classes = classes;
    }

    public static void main(String[] directories) throws Exception {
        for (String directory : directories) {
            File[] jars = new File(directory).listFiles();
            URL[] urls = new URL[jars.length];
            for (int index = 0; index < jars.length; index++) {
                urls[index] = jars[index].toURI().toURL();
            }
            String release = new File(directory).getName();
            try (URLClassLoader loader =
                    new URLClassLoader(urls, ApiRanges.class.getClassLoader())) {
                ApiRanges ranges = new ApiRanges(release, loader);
                ranges.tellApis();
                if (ranges.hasFeatures()) {
                    ranges.tellFeatures();
                }
            }
        }
    }

    private void tell(String name, int lowest, int highest) {
        System.out.println(String.join(
                "\t", release, name, Integer.toString(lowest), Integer.toString(highest)));
    }

    // --- APIs

    private void tellApis() throws Exception {
        Class<?> keys = classes.loadClass(PROTOCOL + "ApiKeys");
        for (Object key : apisOfBrokers(keys)) {
            int[] range = rangeOf(keys, key);
            if (range != null) {
                tell(keys.getField("id").get(key).toString(), range[0], range[1]);
            }
        }
    }

    /** APIs of a broker; in releases that support KRaft, those of a KRaft broker. */
    private Collection<?> apisOfBrokers(Class<?> keys) throws Exception {
        if (hasMethod(keys, "apisForListener")) {
            return (Collection<?>) method(keys, "apisForListener").invoke(null, listener());
        }
        if (hasMethod(keys, "enabledApis")) {
            return (Collection<?>) method(keys, "enabledApis").invoke(null);
        }
        return List.of(keys.getEnumConstants());
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private Object listener() throws Exception {
        Class kinds = classes.loadClass(LISTENER);
        String wanted = isOfZooKeeper() ? "ZK_BROKER" : "BROKER";
        return Enum.valueOf(kinds, wanted);
    }

    /** KRaft is ready for production since 3.3. */
    private boolean isOfZooKeeper() {
        String[] parts = release.split("\\.");
        int major = Integer.parseInt(parts[0]);
        return major < 3 || (major == 3 && Integer.parseInt(parts[1]) < 3);
    }

    private int[] rangeOf(Class<?> keys, Object key) throws Exception {
        Optional<?> told = null;
        if (hasMethod(keys, "toApiVersionForApiResponse")) {
            told = (Optional<?>)
                    method(keys, "toApiVersionForApiResponse").invoke(key, false, listener());
        } else if (hasMethod(keys, "toApiVersion")) {
            told = (Optional<?>) method(keys, "toApiVersion").invoke(key, false);
        }
        if (told == null) {
            return new int[] {
                number(method(keys, "oldestVersion").invoke(key)),
                number(keys.getMethod("latestVersion").invoke(key)),
            };
        }
        if (told.isEmpty()) {
            return null;
        }
        Object version = told.get();
        return new int[] {
            number(method(version.getClass(), "minVersion").invoke(version)),
            number(method(version.getClass(), "maxVersion").invoke(version)),
        };
    }

    // --- features, which only KRaft brokers have

    private boolean hasFeatures() {
        return !isOfZooKeeper();
    }

    private void tellFeatures() throws Exception {
        Class<?> versions = classes.loadClass(COMMON + "MetadataVersion");
        tell("metadata.version", level(versions, lowest(versions)), level(versions, latest(versions)));
        for (String name : new String[] {"Feature", "Features"}) {
            try {
                tellFeaturesIn(classes.loadClass(COMMON + name));
            } catch (ClassNotFoundException | NoSuchFieldException none) {
                continue; // 3.7 and older have only metadata.version
            }
        }
    }

    private void tellFeaturesIn(Class<?> features) throws Exception {
        Field production = features.getField("PRODUCTION_FEATURES");
        for (Object feature : (Collection<?>) production.get(null)) {
            String name = (String) method(features, "featureName").invoke(feature);
            int lowest = hasMethod(features, "minimumProduction")
                    ? number(method(features, "minimumProduction").invoke(feature))
                    : 0;
            tell(name, lowest, number(method(features, "latestProduction").invoke(feature)));
        }
    }

    private Object lowest(Class<?> versions) throws Exception {
        try {
            return versions.getField("MINIMUM_VERSION").get(null);
        } catch (NoSuchFieldException older) {
            return versions.getField("MINIMUM_KRAFT_VERSION").get(null);
        }
    }

    private Object latest(Class<?> versions) throws Exception {
        String name = hasMethod(versions, "latestProduction") ? "latestProduction" : "latest";
        return method(versions, name).invoke(null);
    }

    private int level(Class<?> versions, Object version) throws Exception {
        return number(method(versions, "featureLevel").invoke(version));
    }

    // --- methods of any release

    private static int number(Object found) {
        return ((Number) found).intValue();
    }

    private static boolean hasMethod(Class<?> type, String name) {
        for (Method method : type.getMethods()) {
            if (method.getName().equals(name)) {
                return true;
            }
        }
        return false;
    }

    private static Method method(Class<?> type, String name) {
        for (Method method : type.getMethods()) {
            if (method.getName().equals(name)) {
                return method;
            }
        }
        throw new IllegalStateException(type + " has no " + name);
    }
}
