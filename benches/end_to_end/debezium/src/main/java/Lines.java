import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;

/** Prints a server's changes, one line of JSON each, until it is told to end (SIGTERM). */
public final class Lines {
    private Lines() {}

    /** Takes the path of the engine's properties. */
    public static void main(String[] args) throws IOException {
        Properties properties = new Properties();
        try (var reader = Files.newBufferedReader(Path.of(args[0]))) {
            properties.load(reader);
        }
        OutputStream out = new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 20);
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
                .using(properties)
                .using((success, message, error) -> {
                    if (!success) {
                        System.err.println(message);
                        Runtime.getRuntime().halt(1);
                    }
                })
                .notifying((records, committer) -> {
                    try {
                        for (ChangeEvent<String, String> record : records) {
                            if (record.value() != null) {
                                out.write(record.value().getBytes(StandardCharsets.UTF_8));
                                out.write('\n');
                            }
                            committer.markProcessed(record);
                        }
                        out.flush();
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    }
                    committer.markBatchFinished();
                })
                .build();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                engine.close();
            } catch (IOException error) {
                System.err.println(error);
            }
        }));
        engine.run();
    }
}
