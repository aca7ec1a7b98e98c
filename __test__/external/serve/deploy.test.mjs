// The files of deploy/: their forms, and whether they fit each other and the program that they start.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { Queue, QueueEvents } from 'bullmq';
import { createProgram } from '../../../packages/serve/lib/cli.js';
import { DIGITS, repositoryOf, startServer } from '../../../packages/serve/__test__/support.mjs';
import { LIMITS } from '../../../packages/serve/lib/serve.js';
import { root } from '../../../scripts/process.mjs';
import { freePort, startRedis } from '../../../scripts/services.mjs';
import { endOf, runCommand } from '../../lib/processes.mjs';
import { defined } from '../../lib/types.mjs';

const DEPLOY = path.join(root, 'deploy');
const read = (name) => readFileSync(path.join(DEPLOY, name), 'utf8');
const manifests = (folder) => readdirSync(path.join(DEPLOY, folder)).map((name) => path.join(DEPLOY, folder, name));
const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));

const python = (...args) => runCommand(defined(process.env.SERVE_PYTHON), args, { cwd: import.meta.dirname });

/** The documents of manifests, which must have the forms of Kubernetes and KServe. */
async function documentsOf(files) {
  const { code, stdout, stderr } = await python('manifests.py', ...files);
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout);
}

const kubernetes = await documentsOf(manifests('kubernetes'));
const kserve = await documentsOf(manifests('kserve'));
const ofKind = (kind) => [...kubernetes, ...kserve].filter((document) => document.kind === kind);
const [deployment] = ofKind('Deployment');
const [service] = ofKind('Service');
const pod = deployment.spec.template.spec;
const compose = JSON.parse(
  (await python('-c', 'import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))', path.join(DEPLOY, 'compose.yaml'))).stdout,
);

/** A command of the server's image: a list, which no shell reads. */
const imageCommand = (start) => JSON.parse(defined(new RegExp(`^${start} (\\[.*\\])$`, 'm').exec(read('Dockerfile').split('AS server')[1]))[1]);

/** The command lines that start the server, by where they stand. */
const COMMANDS = {
  Dockerfile: imageCommand('CMD'),
  'compose.yaml': compose.services.server.command,
  ...Object.fromEntries(
    [deployment, ...ofKind('ServingRuntime')].map(({ kind, metadata, spec }) => [`${kind} ${metadata.name}`, (spec.template?.spec ?? spec).containers[0].args]),
  ),
};

/** Reads a command line with the program's own options. */
async function parse(args) {
  let given;
  const program = createProgram().exitOverride();
  program.configureOutput({ writeErr: () => undefined }).action((models, options) => {
    given = { models, ...options };
  });
  await program.parseAsync(args, { from: 'user' });
  return given;
}

const PORTS = { http: 8080, grpc: 8081, metrics: 8082 };

for (const [name, args] of Object.entries(COMMANDS)) {
  test(`${name}: the command line is one that the program has`, async () => {
    const { models, host, ...ports } = await parse(args);
    assert.deepEqual([models, host], ['/mnt/models', '0.0.0.0']);
    for (const [port, number] of Object.entries(PORTS)) assert.ok(ports[port] === undefined || ports[port] === number, `${port} ${ports[port]}`);
    assert.deepEqual([ports.http, ports.metrics], [PORTS.http, PORTS.metrics]);
  });
}

test('a command line with an option that the program does not have is found', async () => {
  await assert.rejects(parse(['/mnt/models', '--nothing']), { code: 'commander.unknownOption' });
  await assert.rejects(parse(['/mnt/models', '--http', 'x']), { code: 'commander.invalidArgument' });
});

test('manifests with fields that nobody knows are refused', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-deploy-'));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [name, field, wrong, message] of /** @type {[string, string, string, RegExp][]} */ ([
    ['kubernetes/serve.yaml', 'minReplicas', 'minReplica', /HorizontalPodAutoscaler.*minReplica/],
    ['kubernetes/serve.yaml', 'readOnlyRootFilesystem', 'readOnlyRootFileSystem', /Deployment.*readOnlyRootFileSystem/],
    ['kserve/runtime.yaml', 'autoSelect', 'autoselect', /supportedModelFormats\[0\]: there is no field autoselect/],
    ['kserve/runtime.yaml', 'periodSeconds', 'periodSecond', /readinessProbe.*periodSecond/],
    ['kserve/inference-service.yaml', 'storageUri:', 'storageUrl:', /predictor\.model: there is no field storageUrl/],
    ['kserve/inference-service.yaml', 'minReplicas: 1', 'minReplicas: one', /minReplicas: expected int/],
    ['kserve/inference-service.yaml', 'v1beta1', 'v1beta9', /Couldn't find schema/],
  ])) {
    const file = path.join(folder, 'wrong.yaml');
    assert.ok(read(name).includes(field), `${name}: ${field}`);
    writeFileSync(file, read(name).replace(field, wrong));
    const { code, stderr } = await python('manifests.py', file);
    assert.equal(code, 1, wrong);
    assert.match(stderr, message);
  }
});

test('ports, names and labels agree', () => {
  const [container] = pod.containers;
  assert.deepEqual(Object.fromEntries(container.ports.map(({ name, containerPort }) => [name, containerPort])), PORTS);
  assert.deepEqual(Object.fromEntries(service.spec.ports.map(({ targetPort, port }) => [targetPort, port])), PORTS);
  for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe']) assert.equal(container[probe].httpGet.port, 'http', probe);
  const { labels } = deployment.spec.template.metadata;
  assert.deepEqual(deployment.spec.selector.matchLabels, labels);
  assert.deepEqual(service.spec.selector, labels);
  assert.deepEqual(ofKind('PodDisruptionBudget')[0].spec.selector.matchLabels, labels);
  assert.equal(ofKind('HorizontalPodAutoscaler')[0].spec.scaleTargetRef.name, deployment.metadata.name);
  const [{ spec: monitor }] = ofKind('ServiceMonitor');
  assert.deepEqual(monitor.selector.matchLabels, service.metadata.labels);
  assert.ok(service.spec.ports.some(({ name }) => name === monitor.endpoints[0].port));
  assert.match(read('prometheus.yml'), new RegExp(`'server:${PORTS.metrics}'`));
});

test("KServe's runtimes have the container, the port and the names that it looks for", () => {
  const [{ spec: inference }] = ofKind('InferenceService');
  const runtimes = Object.fromEntries(ofKind('ServingRuntime').map(({ metadata, spec }) => [metadata.name, spec]));
  const chosen = runtimes[inference.predictor.model.runtime];
  assert.ok(chosen.protocolVersions.includes(inference.predictor.model.protocolVersion));
  assert.ok(chosen.supportedModelFormats.some(({ name }) => name === inference.predictor.model.modelFormat.name));
  const shapes = Object.values(runtimes).map(({ protocolVersions, containers: [{ name, args, ports }] }) => ({
    protocolVersions,
    name,
    model: args[2],
    ports,
  }));
  const common = { name: 'kserve-container', model: '{{.Name}}' };
  const probes = Object.values(runtimes).map(({ containers: [{ readinessProbe: probe }] }) => probe.grpc?.port ?? probe.httpGet.port);
  assert.deepEqual(probes, [PORTS.grpc, PORTS.http]);
  assert.deepEqual(shapes, [
    { protocolVersions: ['grpc-v2'], ...common, ports: [{ name: 'h2c', containerPort: PORTS.grpc, protocol: 'TCP' }] },
    { protocolVersions: ['v2'], ...common, ports: [{ containerPort: PORTS.http, protocol: 'TCP' }] },
  ]);
});

test('the server has more time to end than it takes', () => {
  const drain = LIMITS.drainMs / 1000;
  const { preStop } = pod.containers[0].lifecycle;
  assert.ok(pod.terminationGracePeriodSeconds > preStop.sleep.seconds + drain);
  for (const name of ['server', 'worker']) assert.ok(Number.parseInt(compose.services[name].stop_grace_period, 10) > drain, name);
});

test('a key that is missing opens no server', () => {
  const [key] = pod.containers[0].env.filter(({ name }) => name === 'WEBNN_SERVE_API_KEY');
  assert.deepEqual(key.valueFrom, { secretKeyRef: { name: deployment.metadata.name, key: 'api-key' } });
  // Compose refuses to start without the variable, and with an empty one.
  assert.match(compose.services.server.environment.WEBNN_SERVE_API_KEY, /^\$\{WEBNN_SERVE_API_KEY:\?.+\}$/);
});

test('the heap, requests and answers leave memory for the models', async () => {
  const MIB = 2 ** 20;
  const [, heap] = defined(/^ENV NODE_OPTIONS=--max-old-space-size=(\d+)$/m.exec(read('Dockerfile').split('AS server')[1]));
  const bytes = { Gi: 1024 * MIB, g: 1024 * MIB, Mi: MIB, m: MIB };
  for (const [name, args, most] of [
    ['kubernetes/serve.yaml', pod.containers[0].args, pod.containers[0].resources.limits.memory],
    ['compose.yaml', compose.services.server.command, compose.services.server.mem_limit],
  ]) {
    const { limit } = await parse(args);
    const [, amount, unit] = defined(/^(\d+)(Gi|Mi|g|m)$/.exec(most));
    const { maxBytesInFlight, maxUnreadBytes } = { ...LIMITS, ...limit };
    assert.ok(Number(heap) * MIB + maxBytesInFlight + maxUnreadBytes <= 0.75 * Number(amount) * bytes[unit], name);
  }
});

test('nothing runs as root, with capabilities, or writes to its file system', () => {
  for (const { spec } of [deployment, ...ofKind('ServingRuntime')]) {
    const { securityContext: own = {}, containers } = spec.template?.spec ?? spec;
    const { runAsNonRoot, seccompProfile, ...rest } = { ...own, ...containers[0].securityContext };
    assert.deepEqual([runAsNonRoot, seccompProfile], [true, { type: 'RuntimeDefault' }]);
    assert.deepEqual([rest.allowPrivilegeEscalation, rest.readOnlyRootFilesystem, rest.capabilities], [false, true, { drop: ['ALL'] }]);
  }
  for (const name of ['server', 'worker']) {
    const { user, read_only: isReadOnly, cap_drop: dropped, security_opt: options } = compose.services[name];
    assert.deepEqual([user, isReadOnly, dropped, options], ['1000:1000', true, ['ALL'], ['no-new-privileges:true']], name);
  }
});

test('images are of this version', () => {
  const named = ['Dockerfile', 'compose.yaml', 'kubernetes/serve.yaml', 'kserve/runtime.yaml', 'kserve/runtime-grpc.yaml'].flatMap((name) =>
    [...read(name).matchAll(/(?:webnn-node-serve(?:-worker)?:|VERSION=)(\d+\.\d+\.\d+)/g)].map(([, found]) => found),
  );
  assert.ok(named.length > 6);
  assert.deepEqual([...new Set(named)], [version]);
});

test('Prometheus reads its configuration', async () => {
  const { code, stdout, stderr } = await runCommand('promtool', ['check', 'config', path.join(DEPLOY, 'prometheus.yml')]);
  assert.equal(code, 0, stdout + stderr);
});

test('the health check says whether a server is ready', async (t) => {
  assert.deepEqual(imageCommand('HEALTHCHECK .* CMD'), ['node', 'healthcheck.mjs']);
  const check = (url) => runCommand(process.execPath, [path.join(DEPLOY, 'healthcheck.mjs'), url]);
  const server = await startServer(t, { models: repositoryOf(t, { 'digits/1/model.onnx': DIGITS }) });
  assert.deepEqual((await check(server.urls.http)).code, 0);
  server.registry.beginDrain();
  const { code, stderr } = await check(server.urls.http);
  assert.deepEqual([code, stderr], [1, 'not ready: 503\n']);
  assert.equal((await check(`http://127.0.0.1:${await freePort()}`)).code, 1);
});

test('the worker of the image computes a job, once it is there, and ends on SIGTERM', async (t) => {
  const redis = await startRedis();
  const data = mkdtempSync(path.join(tmpdir(), 'webnn-deploy-'));
  t.after(() => rmSync(data, { recursive: true }));
  const connection = { url: redis.env.REDIS_URL };
  const [queue, events] = [new Queue('embeddings', { connection }), new QueueEvents('embeddings', { connection })];
  t.after(async () => {
    await Promise.all([queue.close(), events.close()]);
    await redis.stop();
  });
  await events.waitUntilReady();
  writeFileSync(path.join(data, 'texts'), 'Snow falls.\nIt is winter.\nShe plays the violin.\n');
  const MODEL = path.join(root, 'packages', 'serve', 'models', 'embeddings');
  const env = { ...process.env, ...redis.env, MODEL, DATA: data, NODE_TEST_CONTEXT: undefined };
  const child = spawn(process.execPath, [path.join(DEPLOY, 'worker.mjs')], { env });
  const ended = endOf(child);
  const job = await queue.add('embed', { file: '../texts' });
  assert.deepEqual(await job.waitUntilFinished(events, 60_000), { vectors: 3 });
  const [first, second, third] = JSON.parse(readFileSync(path.join(data, 'texts.json'), 'utf8'));
  const cosine = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
  assert.ok(cosine(first, second) > cosine(first, third) + 0.1);
  assert.deepEqual(readdirSync(data).sort(), ['texts', 'texts.json']);
  child.kill('SIGTERM');
  const { code, signal, stderr } = await ended;
  assert.deepEqual([code, signal, stderr], [0, null, '']);
});
