// A client of the zero-layer edge with nothing but the JDK (17 or later).
//
//     EDGE_API_KEY_FILE=me.key java EdgeClient.java --audience demo --ca cert.pem localhost:8443
//     java EdgeClient.java --vectors ../vectors.json
//
// java.net.http chooses its ALPN names itself, so this is HttpsURLConnection, which takes
// them from its socket factory: `http/1.1` and the token.

import java.io.FileInputStream;
import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.security.cert.CertificateFactory;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;

public final class EdgeClient {
    private static final HexFormat HEX = HexFormat.of();

    /** SipHash-2-4 of eight bytes, least significant first (Aumasson and Bernstein, 2012). */
    static final class SipHash {
        private long v0, v1, v2, v3;

        private SipHash(byte[] key) {
            ByteBuffer words = ByteBuffer.wrap(key).order(ByteOrder.LITTLE_ENDIAN);
            long k0 = words.getLong(), k1 = words.getLong();
            v0 = k0 ^ 0x736f6d6570736575L;
            v1 = k1 ^ 0x646f72616e646f6dL;
            v2 = k0 ^ 0x6c7967656e657261L;
            v3 = k1 ^ 0x7465646279746573L;
        }

        static byte[] tag(byte[] key, byte[] data) {
            SipHash state = new SipHash(key);
            // Zeros up to whole words, and the length in the highest byte of the last.
            byte[] padded = Arrays.copyOf(data, (data.length / 8 + 1) * 8);
            padded[padded.length - 1] = (byte) data.length;
            ByteBuffer words = ByteBuffer.wrap(padded).order(ByteOrder.LITTLE_ENDIAN);
            while (words.hasRemaining()) {
                long word = words.getLong();
                state.v3 ^= word;
                state.rounds(2);
                state.v0 ^= word;
            }
            state.v2 ^= 0xff;
            state.rounds(4);
            long tag = state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
            return ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(tag).array();
        }

        private void rounds(int count) {
            for (; count > 0; count--) {
                v0 += v1;
                v1 = Long.rotateLeft(v1, 13) ^ v0;
                v0 = Long.rotateLeft(v0, 32);
                v2 += v3;
                v3 = Long.rotateLeft(v3, 16) ^ v2;
                v0 += v3;
                v3 = Long.rotateLeft(v3, 21) ^ v0;
                v2 += v1;
                v1 = Long.rotateLeft(v1, 17) ^ v2;
                v2 = Long.rotateLeft(v2, 32);
            }
        }
    }

    /** Makes the tokens of one API key at one audience. */
    static final class Minter {
        private static final SecureRandom RANDOM = new SecureRandom();
        private final byte[] keyId;
        private final byte[] macKey;

        Minter(String apiKey, String audience) throws GeneralSecurityException {
            byte[] key = apiKey.getBytes(StandardCharsets.UTF_8);
            MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
            sha256.update("zl1 key id".getBytes(StandardCharsets.UTF_8));
            keyId = Arrays.copyOf(sha256.digest(key), 8);
            // HKDF-SHA256 without a salt, one block of output (RFC 5869).
            byte[] prk = hmac(new byte[32], key);
            byte[] info = ("zl1 preauth" + audience + "\1").getBytes(StandardCharsets.UTF_8);
            macKey = Arrays.copyOf(hmac(prk, info), 16);
        }

        private static byte[] hmac(byte[] key, byte[] data) throws GeneralSecurityException {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            return mac.doFinal(data);
        }

        /** The ALPN name for one connection. */
        String token(int issuedAt, byte[] nonce) {
            // ByteBuffer is big-endian unless told otherwise.
            byte[] body = ByteBuffer.allocate(20).put(keyId).putInt(issuedAt).put(nonce).array();
            return "ezl1-" + HEX.formatHex(body) + HEX.formatHex(SipHash.tag(macKey, body));
        }

        String fresh() {
            byte[] nonce = new byte[8];
            RANDOM.nextBytes(nonce);
            return token((int) Instant.now().getEpochSecond(), nonce);
        }
    }

    /** Makes TLS sockets, each of which offers a token of its own. */
    static final class TokenSockets extends SSLSocketFactory {
        private final SSLSocketFactory tls;
        private final Minter minter;

        TokenSockets(SSLSocketFactory tls, Minter minter) {
            this.tls = tls;
            this.minter = minter;
        }

        private Socket offering(Socket made) {
            SSLSocket socket = (SSLSocket) made;
            var parameters = socket.getSSLParameters();
            parameters.setProtocols(new String[] {"TLSv1.3"});
            parameters.setApplicationProtocols(new String[] {"http/1.1", minter.fresh()});
            socket.setSSLParameters(parameters);
            return socket;
        }

        @Override
        public Socket createSocket() throws IOException {
            return offering(tls.createSocket());
        }

        @Override
        public Socket createSocket(Socket tcp, String host, int port, boolean close) throws IOException {
            return offering(tls.createSocket(tcp, host, port, close));
        }

        @Override
        public Socket createSocket(String host, int port) throws IOException {
            return offering(tls.createSocket(host, port));
        }

        @Override
        public Socket createSocket(String host, int port, InetAddress from, int fromPort) throws IOException {
            return offering(tls.createSocket(host, port, from, fromPort));
        }

        @Override
        public Socket createSocket(InetAddress host, int port) throws IOException {
            return offering(tls.createSocket(host, port));
        }

        @Override
        public Socket createSocket(InetAddress host, int port, InetAddress from, int fromPort) throws IOException {
            return offering(tls.createSocket(host, port, from, fromPort));
        }

        @Override
        public String[] getDefaultCipherSuites() {
            return tls.getDefaultCipherSuites();
        }

        @Override
        public String[] getSupportedCipherSuites() {
            return tls.getSupportedCipherSuites();
        }
    }

    /** What the user has to be told, and nothing more. */
    static final class Failure extends Exception {
        Failure(String message) {
            super(message);
        }
    }

    /** From the file that EDGE_API_KEY_FILE names, or from EDGE_API_KEY; never an argument. */
    private static String readApiKey() throws IOException, Failure {
        String file = System.getenv("EDGE_API_KEY_FILE");
        boolean inFile = file != null && !file.isEmpty();
        String text = inFile ? Files.readString(Path.of(file)) : System.getenv("EDGE_API_KEY");
        if (text == null || text.isBlank()) {
            throw new Failure("no API key: set EDGE_API_KEY_FILE to a file that holds it, or EDGE_API_KEY");
        }
        return text.strip();
    }

    private static SSLContext context(String caFile) throws GeneralSecurityException, IOException {
        SSLContext context = SSLContext.getInstance("TLS");
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        KeyStore store = null; // the system's
        if (caFile != null) {
            store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            try (FileInputStream pem = new FileInputStream(caFile)) {
                for (var certificate : CertificateFactory.getInstance("X.509").generateCertificates(pem)) {
                    store.setCertificateEntry("ca" + store.size(), certificate);
                }
            }
        }
        trust.init(store);
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    /** What went wrong, in words that help. */
    private static String explain(IOException error, Minter minter, String audience) {
        String said = String.valueOf(error.getMessage());
        if (error instanceof SSLException && said.contains("access_denied")) {
            return """
                the edge refused the token (TLS alert access_denied). Things to check, likeliest first:
                  - the audience: is '%s' the edge's keys.audience, letter for letter?
                  - the API key: does `edge keys list` show its key id, %s, not revoked, not out of
                    date, and for that audience?
                  - the clock: this machine says %s; tokens are good 30 s back, 5 s ahead by default
                  - the rate: a key may open only so many connections a second
                  - the token: a new one for each connection, never one that was sent before"""
                .formatted(audience, HEX.formatHex(minter.keyId), Instant.now());
        }
        if (error instanceof SSLException && said.contains("PKIX")) {
            return "the edge's certificate is not trusted: " + said + "; is --ca right?";
        }
        if (error instanceof SocketTimeoutException || said.contains("Connection reset")) {
            return said + "; an edge with kernel.answer = \"rst\" or \"drop\" refuses a token like this";
        }
        return said;
    }

    private static void request(String edge, String audience, String caFile)
            throws GeneralSecurityException, IOException, Failure {
        String apiKey = readApiKey();
        Minter minter = new Minter(apiKey, audience);
        String body = "{\"model\":\"m\",\"max_tokens\":8,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}";
        URI uri = URI.create("https://" + edge + "/v1/messages");
        var connection = (HttpsURLConnection) uri.toURL().openConnection();
        connection.setSSLSocketFactory(new TokenSockets(context(caFile).getSocketFactory(), minter));
        connection.setConnectTimeout(30_000);
        connection.setReadTimeout(30_000);
        connection.setRequestMethod("POST");
        connection.setRequestProperty("x-api-key", apiKey);
        connection.setRequestProperty("anthropic-version", "2023-06-01");
        connection.setRequestProperty("content-type", "application/json");
        connection.setDoOutput(true);
        int status;
        String text;
        try {
            try (var out = connection.getOutputStream()) {
                out.write(body.getBytes(StandardCharsets.UTF_8));
            }
            status = connection.getResponseCode();
            var in = status < HttpURLConnection.HTTP_BAD_REQUEST
                ? connection.getInputStream() : connection.getErrorStream();
            text = in == null ? "" : new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException error) {
            throw new Failure(explain(error, minter, audience));
        }
        System.out.printf("HTTP/1.1 %d, x-claude-route: %s%n%s%n",
            status, connection.getHeaderField("x-claude-route"), text);
        if (status != HttpURLConnection.HTTP_OK) {
            throw new Failure("the request was refused inside TLS; the answer says why");
        }
    }

    /** The flat objects of one list in the vectors' file; the JDK reads no JSON. */
    private static List<Map<String, String>> list(String json, String name) {
        int begin = json.indexOf("\"" + name + "\": [");
        String inside = json.substring(begin, json.indexOf(']', begin));
        Pattern field = Pattern.compile("\"(\\w+)\": (?:\"([^\"]*)\"|(\\d+))");
        List<Map<String, String>> objects = new ArrayList<>();
        for (String object : inside.split("}")) {
            Map<String, String> fields = new LinkedHashMap<>();
            var found = field.matcher(object);
            while (found.find()) {
                fields.put(found.group(1), found.group(2) != null ? found.group(2) : found.group(3));
            }
            if (!fields.isEmpty()) {
                objects.add(fields);
            }
        }
        return objects;
    }

    private static void demand(String got, String wanted) throws Failure {
        if (!got.equals(wanted)) {
            throw new Failure("made " + got + ", not " + wanted);
        }
    }

    private static void checkVectors(String file) throws GeneralSecurityException, IOException, Failure {
        String json = Files.readString(Path.of(file));
        var tags = list(json, "siphash");
        for (var vector : tags) {
            byte[] tag = SipHash.tag(HEX.parseHex(vector.get("key")), HEX.parseHex(vector.get("message")));
            demand(HEX.formatHex(tag), vector.get("tag"));
        }
        var tokens = list(json, "tokens");
        for (var vector : tokens) {
            Minter minter = new Minter(vector.get("api_key"), vector.get("audience"));
            demand(HEX.formatHex(minter.keyId), vector.get("key_id"));
            demand(HEX.formatHex(minter.macKey), vector.get("mac_key"));
            int issuedAt = Integer.parseUnsignedInt(vector.get("issued_at"));
            demand(minter.token(issuedAt, HEX.parseHex(vector.get("nonce"))), vector.get("token"));
        }
        System.out.printf("%d tokens and %d tags are as in %s%n", tokens.size(), tags.size(), file);
    }

    public static void main(String[] arguments) throws GeneralSecurityException {
        try {
            run(arguments);
        } catch (Failure failure) {
            System.err.println("error: " + failure.getMessage());
            System.exit(1);
        } catch (IOException error) {
            System.err.println("error: " + error);
            System.exit(1);
        }
    }

    private static void run(String[] arguments) throws GeneralSecurityException, IOException, Failure {
        String audience = "demo";
        String ca = null;
        String edge = null;
        for (int i = 0; i < arguments.length; i++) {
            boolean valued = i + 1 < arguments.length;
            switch (arguments[i]) {
                case "--audience" -> audience = valued ? arguments[++i] : "";
                case "--ca" -> ca = valued ? arguments[++i] : "";
                case "--vectors" -> {
                    checkVectors(valued ? arguments[++i] : "");
                    return;
                }
                default -> edge = arguments[i];
            }
        }
        if (edge == null || edge.startsWith("-") || !edge.contains(":")) {
            throw new Failure("where is the edge? EdgeClient [--audience NAME] [--ca FILE] HOST:PORT");
        }
        request(edge, audience, ca);
    }
}
