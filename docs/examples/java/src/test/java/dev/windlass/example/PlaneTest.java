package dev.windlass.example;

// ANCHOR: plane
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PlaneTest {
    @TempDir Path dir;
    Process up;
    KubernetesClient client;

    @BeforeEach
    void start() throws Exception {
        var ready = dir.resolve("ready");
        up = new ProcessBuilder("windlass", "up", "--port", "0", "--store", "memory",
                "--data-dir", dir.toString(), "--ready-file", ready.toString())
            .redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .start();
        var deadline = Instant.now().plus(Duration.ofSeconds(10));
        while (!Files.exists(ready)) {
            if (!up.isAlive() || Instant.now().isAfter(deadline)) {
                throw new IllegalStateException("the control plane does not start");
            }
            Thread.sleep(5);
        }
        var config = Config.fromKubeconfig(Files.readString(dir.resolve("kubeconfig")));
        config.setClientKeyAlgo("EC"); // or a key in PKCS#8 is taken for one of RSA
        client = new KubernetesClientBuilder().withConfig(config).build();
    }

    @AfterEach
    void stop() throws Exception {
        if (client != null) {
            client.close();
        }
        up.destroy();
        up.waitFor();
    }

    @Test
    void whatIsWrittenIsRead() {
        var map = new ConfigMapBuilder().withNewMetadata().withName("settings").endMetadata()
            .withData(Map.of("colour", "blue")).build();
        client.configMaps().inNamespace("default").resource(map).create();
        var found = client.configMaps().inNamespace("default").withName("settings").get();
        assertEquals("blue", found.getData().get("colour"));
    }
}
// ANCHOR_END: plane
