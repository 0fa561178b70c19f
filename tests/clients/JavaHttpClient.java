// What java.net.http.HttpClient does with a running stenod: uploads, and WebSockets on the
// connections of the requests before them.
//
//     java tests/clients/JavaHttpClient.java http://127.0.0.1:8080 tests/data/digits.wav default|1.1
//
// "default": the client offers HTTP/2 with every request (Upgrade: h2c), as it does unless told
// otherwise. Prints "upload TEXT" and "stream TEXT" for each of two rounds.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.WebSocket;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public class JavaHttpClient {
    static final Pattern FINAL =
        Pattern.compile("\"type\"\\s*:\\s*\"final\".*?\"text\"\\s*:\\s*\"([^\"]*)\"");

    /** Collects messages until the server closes. */
    static class Listener implements WebSocket.Listener {
        final CompletableFuture<String> closed = new CompletableFuture<>();
        final StringBuilder text = new StringBuilder(), part = new StringBuilder();

        @Override
        public CompletionStage<?> onText(WebSocket ws, CharSequence data, boolean last) {
            part.append(data);
            if (last) {
                Matcher m = FINAL.matcher(part);
                if (m.find() && !m.group(1).isEmpty())
                    text.append(text.length() > 0 ? " " : "").append(m.group(1));
                part.setLength(0);
            }
            ws.request(1);
            return null;
        }

        @Override
        public CompletionStage<?> onClose(WebSocket ws, int code, String reason) {
            if (code == 1000)
                closed.complete(text.toString());
            else
                closed.completeExceptionally(new Exception("closed with " + code + " " + reason));
            return null;
        }

        @Override
        public void onError(WebSocket ws, Throwable why) {
            closed.completeExceptionally(why);
        }
    }

    static String upload(HttpClient client, String base, Path wav) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(base + "/v1/transcribe?format=text"))
            .header("Content-Type", "audio/wav")
            .POST(HttpRequest.BodyPublishers.ofFile(wav))
            .build();
        HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200)
            throw new Exception("status " + answer.statusCode() + ": " + answer.body());
        return answer.body().trim();
    }

    static String stream(HttpClient client, String base, byte[] pcm, int rate) throws Exception {
        Listener listener = new Listener();
        WebSocket ws = client.newWebSocketBuilder()
            .buildAsync(URI.create(base.replaceFirst("^http", "ws") + "/v1/stream"), listener)
            .get(60, TimeUnit.SECONDS);
        ws.sendText("{\"type\":\"start\",\"sample_rate\":" + rate + "}", true).get();
        for (int i = 0; i < pcm.length; i += 3200)
            ws.sendBinary(ByteBuffer.wrap(pcm, i, Math.min(3200, pcm.length - i)), true).get();
        ws.sendText("{\"type\":\"end\"}", true).get();
        return listener.closed.get(120, TimeUnit.SECONDS);
    }

    public static void main(String[] args) throws Exception {
        String base = args[0];
        byte[] wav = Files.readAllBytes(Path.of(args[1]));
        byte[] pcm = Arrays.copyOfRange(wav, 44, wav.length);
        int rate = ByteBuffer.wrap(wav, 24, 4).order(java.nio.ByteOrder.LITTLE_ENDIAN).getInt();
        HttpClient.Builder builder = HttpClient.newBuilder();
        if (args[2].equals("1.1"))
            builder.version(HttpClient.Version.HTTP_1_1);
        HttpClient client = builder.build();
        for (int round = 0; round < 2; round++) {
            System.out.println("upload " + upload(client, base, Path.of(args[1])));
            System.out.println("stream " + stream(client, base, pcm, rate));
        }
        System.exit(0);
    }
}
