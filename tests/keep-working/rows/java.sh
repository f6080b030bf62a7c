# java: -version, javac, a jar, threads, a child process
java -version
cat >Main.java <<'END'
import java.util.concurrent.*;
public class Main {
    public static void main(String[] args) throws Exception {
        int n = Executors.newSingleThreadExecutor().submit(() -> 42).get();
        Process p = new ProcessBuilder("sh", "-c", "exit 3").start();
        System.out.println(n + " " + p.waitFor());
        System.exit(0);
    }
}
END
javac -d classes Main.java
jar --create --file=main.jar --main-class=Main -C classes .
is "$(java -jar main.jar)" '42 3'
