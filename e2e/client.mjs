// `@kubernetes/client-node` against the server of $KUBECONFIG: CRUD, patches, lists, watches, informers.

import assert from "node:assert/strict";
import { createRequire } from "node:module";

import { check, eventually, run } from "./checks.mjs";

// The packages are installed in the directory that the runner starts this in, not next to this file.
const k8s = createRequire(`${process.cwd()}/`)("@kubernetes/client-node");

const namespace = `e2e-javascript-${process.pid}`;
const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);

function configmap(name, data = { a: "b" }, labels = {}) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace, labels }, data };
}

async function refused(code, reason, promise) {
  const error = await promise.then(
    (answer) => assert.fail(`expected ${code} ${reason}, got ${JSON.stringify(answer)}`),
    (error) => error,
  );
  if (error instanceof assert.AssertionError) throw error;
  assert.equal(error.code, code, String(error));
  const body = typeof error.body === "string" ? JSON.parse(error.body) : error.body;
  assert.deepEqual([body.kind, body.reason], ["Status", reason]);
}

check("the version and the resources", async () => {
  const version = await config.makeApiClient(k8s.VersionApi).getCode();
  assert.equal(version.minor, "36");
  const { resources } = await core.getAPIResources();
  assert.ok(resources.some((resource) => resource.name === "pods/status"));
});

check("a namespace for the other checks", async () => {
  const created = await core.createNamespace({ body: { metadata: { name: namespace } } });
  assert.equal(created.status.phase, "Active");
});

check("create, read, replace, delete, and the errors of each", async () => {
  const one = { name: "crud", namespace };
  const created = await core.createNamespacedConfigMap({ namespace, body: configmap("crud") });
  await refused(409, "AlreadyExists", core.createNamespacedConfigMap({ namespace, body: configmap("crud") }));
  const read = await core.readNamespacedConfigMap(one);
  assert.equal(read.metadata.uid, created.metadata.uid);
  assert.ok(read.metadata.creationTimestamp instanceof Date);
  read.data.c = "d";
  const replaced = await core.replaceNamespacedConfigMap({ ...one, body: read });
  assert.deepEqual(replaced.data, { a: "b", c: "d" });
  await refused(409, "Conflict", core.replaceNamespacedConfigMap({ ...one, body: read }));
  assert.equal((await core.deleteNamespacedConfigMap(one)).status, "Success");
  await refused(404, "NotFound", core.readNamespacedConfigMap(one));
});

check("JSON, merge and strategic patches", async () => {
  const labels = { app: "patched" };
  const containers = [{ name: "main", image: "example.com/main:1" }];
  const spec = { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } };
  await apps.createNamespacedDeployment({ namespace, body: { metadata: { name: "patched" }, spec } });
  const patch = (strategy, body) =>
    apps.patchNamespacedDeployment(
      { name: "patched", namespace, body },
      k8s.setHeaderOptions("Content-Type", k8s.PatchStrategy[strategy]),
    );
  const scaled = await patch("JsonPatch", [{ op: "replace", path: "/spec/replicas", value: 3 }]);
  assert.equal(scaled.spec.replicas, 3);
  assert.equal((await patch("MergePatch", { spec: { paused: true } })).spec.paused, true);
  const side = [{ name: "side", image: "example.com/side:1" }];
  const both = await patch("StrategicMergePatch", { spec: { template: { spec: { containers: side } } } });
  assert.deepEqual(both.spec.template.spec.containers.map((container) => container.name).sort(), ["main", "side"]);
  const scale = await apps.readNamespacedDeploymentScale({ name: "patched", namespace });
  assert.equal(scale.spec.replicas, 3);
});

check("lists by pages, labels and fields", async () => {
  for (let i = 0; i < 7; i++) {
    const body = configmap(`page-${i}`, { i: `${i}` }, { page: `${i % 2}` });
    await core.createNamespacedConfigMap({ namespace, body });
  }
  const names = [];
  let _continue;
  do {
    const page = await core.listNamespacedConfigMap({ namespace, labelSelector: "page", limit: 3, _continue });
    names.push(...page.items.map((item) => item.metadata.name));
    _continue = page.metadata._continue;
  } while (_continue);
  assert.deepEqual(names, [0, 1, 2, 3, 4, 5, 6].map((i) => `page-${i}`));
  const odd = await core.listNamespacedConfigMap({ namespace, labelSelector: "page=1" });
  assert.equal(odd.items.length, 3);
  const one = await core.listNamespacedConfigMap({ namespace, fieldSelector: "metadata.name=page-5" });
  assert.equal(one.items.length, 1);
});

check("a watch shows every change in order", async () => {
  const { metadata } = await core.listNamespacedConfigMap({ namespace });
  const events = [];
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const query = { resourceVersion: metadata.resourceVersion, fieldSelector: "metadata.name=seen" };
  const seen = (type, object) => events.push(`${type} ${object.data.a}`);
  const controller = await new k8s.Watch(config).watch(path, query, seen, () => {});
  await core.createNamespacedConfigMap({ namespace, body: configmap("seen") });
  const body = [{ op: "replace", path: "/data/a", value: "c" }];
  await core.patchNamespacedConfigMap({ name: "seen", namespace, body });
  await core.deleteNamespacedConfigMap({ name: "seen", namespace });
  await eventually(() => events.length >= 3, `three events, not ${events}`).finally(() => controller.abort());
  assert.deepEqual(events, ["ADDED b", "MODIFIED c", "DELETED c"]);
});

check("an informer keeps a copy of a collection", async () => {
  const list = () => core.listNamespacedConfigMap({ namespace, labelSelector: "informed" });
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  await core.createNamespacedConfigMap({ namespace, body: configmap("informed-0", {}, { informed: "yes" }) });
  const informer = k8s.makeInformer(config, path, list, "informed");
  const deleted = [];
  informer.on("delete", (object) => deleted.push(object.metadata.name));
  await informer.start();
  try {
    await core.createNamespacedConfigMap({ namespace, body: configmap("informed-1", {}, { informed: "yes" }) });
    await eventually(() => informer.get("informed-0", namespace) && informer.get("informed-1", namespace), "both are there");
    await core.deleteNamespacedConfigMap({ name: "informed-0", namespace });
    await eventually(() => deleted.includes("informed-0"), "the deletion is seen");
    assert.equal(informer.get("informed-0", namespace), undefined);
  } finally {
    await informer.stop();
  }
});

check("the object client works on any kind", async () => {
  const objects = k8s.KubernetesObjectApi.makeApiClient(config);
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web", namespace },
    spec: { ports: [{ port: 80 }], selector: { app: "web" } },
  };
  const created = await objects.create(service);
  assert.match(created.spec.clusterIP, /^10\./);
  service.spec.selector = { app: "changed" };
  const patched = await objects.patch(service, undefined, undefined, undefined, undefined, k8s.PatchStrategy.MergePatch);
  assert.deepEqual(patched.spec.selector, { app: "changed" });
  assert.equal((await objects.read(service)).spec.clusterIP, created.spec.clusterIP);
  await objects.delete(service);
  await refused(404, "NotFound", objects.read(service));
});

await run();
