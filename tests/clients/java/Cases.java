import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * java Cases BOOTSTRAP RUN [CASE]: runs every case, or that one, and prints one JSON line for each, with what it saw or how
 * it failed.
 */
public final class Cases {
    private Cases() {}

    public static void main(String[] arguments) throws Exception {
        Setting setting = new Setting(arguments[0], arguments[1]);
        List<Object> rooms = List.of(
                new RecordCases(setting),
                new GroupCases(setting),
                new AdminCases(setting),
                new OperatorCases(setting),
                new TransactionCases(setting),
                new ShareCases(setting));
        // The rooms run side by side, the cases of a room one after another: most of their time is waiting.
        List<Thread> lanes = new ArrayList<>();
        for (Object room : rooms) {
            Thread lane = new Thread(() -> runAll(room, arguments.length > 2 ? arguments[2] : ""));
            lane.start();
            lanes.add(lane);
        }
        for (Thread lane : lanes) {
            lane.join();
        }
        System.exit(0);
    }

    private static void runAll(Object room, String chosen) {
        Method[] methods = room.getClass().getDeclaredMethods();
        Arrays.sort(methods, Comparator.comparing(Method::getName));
        for (Method method : methods) {
            boolean isCase = method.getParameterCount() == 0
                    && method.getReturnType() == Map.class
                    && !Modifier.isPrivate(method.getModifiers());
            if (isCase && (chosen.isEmpty() || method.getName().equals(chosen))) {
                runOne(room, method);
            }
        }
    }

    private static void runOne(Object room, Method method) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("case", room.getClass().getSimpleName() + "." + method.getName());
        try {
            line.put("saw", method.invoke(room));
        } catch (InvocationTargetException wrapped) {
            StringWriter trace = new StringWriter();
            wrapped.getCause().printStackTrace(new PrintWriter(trace));
            line.put("failed", trace);
        } catch (IllegalAccessException impossible) {
            throw new AssertionError(impossible);
        }
        synchronized (System.out) {
            System.out.println(Json.of(line));
        }
    }
}
