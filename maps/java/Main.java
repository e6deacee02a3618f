import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Reads lines: a line that begins with { is a map, any other holds scores, and is answered. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws IOException {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        CalibrationMap map = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.startsWith("{")) map = new CalibrationMap(line);
            else System.out.println(map.at(Arrays.stream(line.split(" ")).mapToDouble(Double::parseDouble).toArray()));
        }
    }
}
