import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;

/** Just enough JSON to print what a case saw: maps, collections, strings, numbers, booleans and null. */
final class Json {
    private Json() {}

    static String of(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream()
                    .map(entry -> quoted(String.valueOf(entry.getKey())) + ":" + of(entry.getValue()))
                    .collect(Collectors.joining(",", "{", "}"));
        }
        if (value instanceof Iterable<?> items) {
            return StreamSupport.stream(items.spliterator(), false).map(Json::of).collect(Collectors.joining(",", "[", "]"));
        }
        return quoted(value.toString());
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
