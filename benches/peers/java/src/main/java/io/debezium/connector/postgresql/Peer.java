// In Debezium's package, as the parts of a task are protected.
package io.debezium.connector.postgresql;

import io.debezium.config.CommonConnectorConfig;
import io.debezium.config.Configuration;
import io.debezium.connector.postgresql.connection.MessageDecoderContext;
import io.debezium.connector.postgresql.connection.PostgresConnection;
import io.debezium.connector.postgresql.connection.PostgresDefaultValueConverter;
import io.debezium.connector.postgresql.connection.ReplicationMessage;
import io.debezium.connector.postgresql.connection.ReplicationMessage.Column;
import io.debezium.connector.postgresql.connection.ReplicationStream.ReplicationMessageProcessor;
import io.debezium.connector.postgresql.connection.pgoutput.PgOutputMessageDecoder;
import io.debezium.relational.CustomConverterRegistry;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.postgresql.core.BaseConnection;

/**
 * Debezium's decoder of pgoutput behind the line protocol of benches/peers: {@code messages} or {@code
 * values}.
 *
 * <p>Its catalog comes from the server at the port in {@code PEERS_PORT}, as in a connector. The tables
 * of a capture need not be there.
 */
public final class Peer {
    /** The bytes in front of a pgoutput message in an XLogData message. */
    private static final int XLOG_DATA = 25;

    private static final Map<ReplicationMessage.Operation, String> TAGS =
            Map.of(
                    ReplicationMessage.Operation.BEGIN, "B",
                    ReplicationMessage.Operation.COMMIT, "C",
                    ReplicationMessage.Operation.INSERT, "I",
                    ReplicationMessage.Operation.UPDATE, "U",
                    ReplicationMessage.Operation.DELETE, "D");

    private final Configuration configuration;
    private final PostgresConnectorConfig config;
    private final PostgresConnection connection;
    private final TypeRegistry types;
    private final boolean readsValues;
    private byte[] capture = {};
    private long items;
    /** The time of relations: for each, the decoder asks the server about columns and keys. */
    private long askingNs;

    private Peer(Configuration configuration, boolean readsValues) throws Exception {
        this.configuration = configuration;
        this.readsValues = readsValues;
        config = new PostgresConnectorConfig(configuration);
        types = PostgresConnection.createTypeRegistry(config.getJdbcConfig());
        connection = new PostgresConnection(config, types, "peers");
    }

    public static void main(String[] arguments) throws Exception {
        Configuration configuration =
                Configuration.create()
                        .with("name", "peers")
                        .with("topic.prefix", "peers")
                        .with("plugin.name", "pgoutput")
                        .with("database.hostname", "127.0.0.1")
                        .with("database.port", System.getenv("PEERS_PORT"))
                        .with("database.user", "postgres")
                        .with("database.password", "unused")
                        .with("database.dbname", "postgres")
                        .build();
        Peer peer = new Peer(configuration, List.of(arguments).contains("values"));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = peer.answer(line);
            } catch (Exception error) {
                String text = String.valueOf(error).replaceAll("[\"\\\\\\p{Cntrl}]", " ");
                answer = "{\"error\": \"" + text + "\"}";
            }
            System.out.println(answer);
        }
    }

    private String answer(String line) throws Exception {
        String[] words = line.split(" ", 2);
        switch (words[0]) {
            case "load":
                capture = Files.readAllBytes(Path.of(words[1]));
                return "{}";
            case "count":
                return count();
            case "pass":
                PgOutputMessageDecoder decoder = decoder();
                items = 0;
                askingNs = 0;
                long start = System.nanoTime();
                forEach(decoder, readsValues ? this::readValues : message -> items++);
                long ns = System.nanoTime() - start - askingNs;
                return "{\"ns\": " + ns + ", \"items\": " + items + "}";
            default:
                throw new IllegalArgumentException("unknown line: load FILE, count or pass");
        }
    }

    private PgOutputMessageDecoder decoder() throws Exception {
        PostgresValueConverter values =
                PostgresValueConverter.of(config, connection.getDatabaseCharset(), types);
        PostgresSchema schema =
                new PostgresSchema(
                        new PostgresTaskContext(configuration, config),
                        new PostgresDefaultValueConverter(
                                values, connection.getTimestampUtils(), types),
                        config.getTopicNamingStrategy(CommonConnectorConfig.TOPIC_NAMING_STRATEGY),
                        values,
                        new CustomConverterRegistry(List.of()));
        return new PgOutputMessageDecoder(new MessageDecoderContext(config, schema), connection);
    }

    /** Decodes the payload of each CopyData message, as the driver hands it out. */
    private void forEach(PgOutputMessageDecoder decoder, ReplicationMessageProcessor each)
            throws Exception {
        ByteBuffer all = ByteBuffer.wrap(capture);
        for (int at = 0; at + 5 <= capture.length; ) {
            int end = at + 1 + all.getInt(at + 1);
            if (capture[at] == 'd' && capture[at + 5] == 'w') {
                int message = at + 5 + XLOG_DATA;
                boolean asks = capture[message] == 'R';
                long start = asks ? System.nanoTime() : 0;
                decoder.processMessage(all.slice(message, end - message), each, types);
                askingNs += asks ? System.nanoTime() - start : 0;
            }
            at = end;
        }
    }

    /** Has the texts of a row converted, as a connector does before it writes a record. */
    private void readValues(ReplicationMessage message) throws SQLException {
        items++;
        if (TAGS.containsKey(message.getOperation()) && !isTransaction(message)) {
            for (List<Column> row : rows(message)) {
                for (Column column : row) {
                    value(column);
                }
            }
        }
    }

    private Object value(Column column) throws SQLException {
        return column.getValue(() -> (BaseConnection) connection.connection(), false);
    }

    private static boolean isTransaction(ReplicationMessage message) {
        return message.getOperation() == ReplicationMessage.Operation.BEGIN
                || message.getOperation() == ReplicationMessage.Operation.COMMIT;
    }

    private static List<List<Column>> rows(ReplicationMessage message) {
        return Stream.of(message.getOldTupleList(), message.getNewTupleList())
                .filter(Objects::nonNull)
                .collect(Collectors.toList());
    }

    /** Relations are no messages of its own, and a truncate is one for each table. */
    private String count() throws Exception {
        Map<String, Long> messages = new TreeMap<>();
        long[] cells = new long[2];
        forEach(
                decoder(),
                message -> {
                    String tag = TAGS.get(message.getOperation());
                    if (tag == null) {
                        return;
                    }
                    messages.merge(tag, 1L, Long::sum);
                    if (isTransaction(message)) {
                        return;
                    }
                    for (List<Column> row : rows(message)) {
                        for (Column column : row) {
                            cells[0]++;
                            cells[1] += column.isToastedColumn() || value(column) == null ? 1 : 0;
                        }
                    }
                });
        String kinds =
                messages.entrySet().stream()
                        .map(each -> "\"" + each.getKey() + "\": " + each.getValue())
                        .collect(Collectors.joining(", "));
        return "{\"messages\": {" + kinds + "}, \"cells\": " + cells[0] + ", \"nulls\": " + cells[1]
                + "}";
    }
}
