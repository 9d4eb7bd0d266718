import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Apache Kafka's console tools one after the other in one warm JVM.
 *
 * A request is a line of base64 words: main class, standard input, arguments. The response is
 * a line with exit code, standard output and standard error, the latter two as base64.
 */
public final class ToolServer {
    private static final Channel OUT = new Channel();
    private static final Channel ERR = new Channel();
    private static final int STILL_RUNNING = -1;
    private static volatile int exitCode = STILL_RUNNING;

    public static void main(String[] unused) throws IOException {
        BufferedReader requests =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream answers = System.out;
        // Set once, because Scala and log4j keep the first streams.
        System.setOut(unclosable(OUT));
        System.setErr(unclosable(ERR));
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        for (String request = requests.readLine(); request != null; request = requests.readLine()) {
            String[] words = request.split(" ", -1);
            for (int i = 0; i < words.length; i++) {
                words[i] = new String(Base64.getDecoder().decode(words[i]), StandardCharsets.UTF_8);
            }
            int code = run(words[0], words[1], Arrays.copyOfRange(words, 2, words.length));
            answers.println(code + " " + OUT.take() + " " + ERR.take());
            answers.flush();
        }
        Runtime.getRuntime().halt(0); // a tool may have left threads behind
    }

    /** Ignores close, because tools close standard output. */
    private static PrintStream unclosable(OutputStream channel) {
        return new PrintStream(channel, true) {
            @Override
            public void close() {
                flush();
            }
        };
    }

    private static int run(String mainClass, String input, String[] arguments) {
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        exitCode = STILL_RUNNING;
        try {
            Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (exitCode == STILL_RUNNING) {
                thrown.getCause().printStackTrace();
                return 1;
            }
        } catch (ReflectiveOperationException noTool) {
            noTool.printStackTrace();
            return 1;
        }
        return exitCode == STILL_RUNNING ? 0 : exitCode;
    }

    /**
     * Ends a tool like an exit of its JVM. Some tools catch every Throwable, print it and exit again;
     * only the first exit code counts, and later output is discarded.
     */
    private static void end(int code) {
        if (exitCode == STILL_RUNNING) {
            exitCode = code;
        }
        throw new Ended();
    }

    private static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    /** Collects output until it is taken. */
    private static final class Channel extends OutputStream {
        private ByteArrayOutputStream collected = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int octet) {
            if (exitCode == STILL_RUNNING) {
                collected.write(octet);
            }
        }

        @Override
        public synchronized void write(byte[] octets, int from, int count) {
            if (exitCode == STILL_RUNNING) {
                collected.write(octets, from, count);
            }
        }

        synchronized String take() {
            String taken = Base64.getEncoder().encodeToString(collected.toByteArray());
            collected = new ByteArrayOutputStream();
            return taken;
        }
    }
}
