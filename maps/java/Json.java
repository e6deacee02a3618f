import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A reader of JSON: objects as Map, lists of numbers as double[], other lists as List, numbers as Double. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) { this.text = text; }

    static Object read(String text) {
        Json json = new Json(text);
        Object value = json.value();
        json.skip();
        if (json.at < text.length()) throw json.error();
        return value;
    }

    private Object value() {
        char c = next();
        if (c == '{') return object();
        if (c == '[') return list();
        if (c == '"') return string();
        if (word("true")) return true;
        if (word("false")) return false;
        if (word("null")) return null;
        int start = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) at++;
        if (at == start) throw error();
        return Double.valueOf(text.substring(start, at));
    }

    private Map<String, Object> object() {
        Map<String, Object> found = new LinkedHashMap<>();
        at++;
        for (boolean more = next() != '}'; more; more = separated('}')) {
            if (next() != '"') throw error();
            String name = string();
            if (next() != ':') throw error();
            at++;
            found.put(name, value());
        }
        return closed(found);
    }

    private Object list() {
        List<Object> found = new ArrayList<>();
        at++;
        for (boolean more = next() != ']'; more; more = separated(']')) found.add(value());
        boolean numbers = found.stream().allMatch(Double.class::isInstance);
        return closed(numbers ? found.stream().mapToDouble(one -> (Double) one).toArray() : found);
    }

    private boolean separated(char end) {
        char c = next();
        if (c == ',') at++;
        else if (c != end) throw error();
        return c == ',';
    }

    private <T> T closed(T found) {
        at++;
        return found;
    }

    private String string() {
        StringBuilder found = new StringBuilder();
        for (at++; at < text.length() && text.charAt(at) != '"'; at++) {
            char c = text.charAt(at);
            if (c == '\\') {
                c = text.charAt(++at);
                int place = "bfnrt".indexOf(c);
                if (place >= 0) c = "\b\f\n\r\t".charAt(place);
                else if (c == 'u') c = (char) Integer.parseInt(text.substring(at + 1, (at += 4) + 1), 16);
            }
            found.append(c);
        }
        return closed(found.toString());
    }

    private boolean word(String word) {
        boolean found = text.startsWith(word, at);
        if (found) at += word.length();
        return found;
    }

    private void skip() {
        while (at < text.length() && Character.isWhitespace(text.charAt(at))) at++;
    }

    private char next() {
        skip();
        if (at >= text.length()) throw error();
        return text.charAt(at);
    }

    private IllegalArgumentException error() { return new IllegalArgumentException("no JSON at place " + at); }
}
