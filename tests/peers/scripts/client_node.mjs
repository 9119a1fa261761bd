// @kubernetes/client-node: objects, an informer, server-side apply, exec and logs. Arguments: its folder, a namespace.
import { strict as assert } from 'node:assert';
import { Writable } from 'node:stream';
import { pathToFileURL } from 'node:url';

const [folder, namespace] = process.argv.slice(2);
const k8s = await import(pathToFileURL(`${folder}/dist/index.js`));

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);

async function eventually(what) {
  const end = Date.now() + 20_000;
  while (Date.now() < end) {
    const found = await what();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`never: ${what}`);
}

class Kept extends Writable {
  text = '';
  _write(chunk, _encoding, done) {
    this.text += chunk;
    done();
  }
}

// An informer sees what happens to config maps.
const seen = [];
const list = () => core.listNamespacedConfigMap({ namespace });
const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, list);
for (const event of ['add', 'update', 'delete']) {
  informer.on(event, (each) => each.metadata.name === 'c' && seen.push(event));
}
let stopped = false;
informer.on('error', (error) => {
  if (!stopped) throw error;
});
await informer.start();
await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'c' }, data: { k: 'v' } } });
await eventually(() => seen.length === 1);
await objects.patch(
  { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'c', namespace }, data: { l: 'x' } },
  undefined,
  undefined,
  'client-node',
  true,
  k8s.PatchStrategy.ServerSideApply,
);
await eventually(() => seen.length === 2);
const both = await core.readNamespacedConfigMap({ namespace, name: 'c' });
assert.deepEqual(both.data, { k: 'v', l: 'x' });
assert.ok(both.metadata.managedFields.some((each) => each.manager === 'client-node' && each.operation === 'Apply'));
await core.deleteNamespacedConfigMap({ namespace, name: 'c' });
await eventually(() => seen.length === 3);
assert.deepEqual(seen, ['add', 'update', 'delete']);
stopped = true;
await informer.stop();

// A pod that runs: a command in it, and its log.
const command = ['sh', '-c', 'echo from the pod; sleep 60'];
const spec = { restartPolicy: 'Never', terminationGracePeriodSeconds: 0, containers: [{ name: 'main', image: 'none', command }] };
await core.createNamespacedPod({ namespace, body: { metadata: { name: 'p' }, spec } });
await eventually(async () => (await core.readNamespacedPod({ namespace, name: 'p' })).status.phase === 'Running');

const out = new Kept();
const err = new Kept();
const status = await new Promise((done, failed) => {
  new k8s.Exec(config)
    .exec(namespace, 'p', 'main', ['sh', '-c', 'echo fine; echo oops >&2; exit 3'], out, err, null, false, done)
    .then((socket) => socket.on('error', failed), failed);
});
assert.equal(status.status, 'Failure');
assert.equal(status.details.causes.find((each) => each.reason === 'ExitCode').message, '3');
assert.equal(out.text, 'fine\n');
assert.equal(err.text, 'oops\n');

const log = new Kept();
await new k8s.Log(config).log(namespace, 'p', 'main', log, { follow: false, tailLines: 1 });
await eventually(() => log.text === 'from the pod\n');
await core.deleteNamespacedPod({ namespace, name: 'p' });
console.log('done');
process.exit(0);
