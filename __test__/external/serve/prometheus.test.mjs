// Debian's Prometheus reads the metrics.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { DIGITS, PICTURE, post, repositoryOf, startServer } from '../../../packages/serve/__test__/support.mjs';
import { freePort } from '../../../scripts/services.mjs';
import { until } from '../../lib/wait.mjs';

/** Starts Prometheus, which reads a target every second. */
async function startPrometheus(t, target) {
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-prometheus-'));
  const config = path.join(folder, 'prometheus.json');
  // JSON is YAML.
  writeFileSync(config, JSON.stringify({ scrape_configs: [{ job_name: 'serve', scrape_interval: '1s', static_configs: [{ targets: [target] }] }] }));
  const address = `127.0.0.1:${await freePort()}`;
  const args = [`--config.file=${config}`, `--storage.tsdb.path=${folder}/data`, `--web.listen-address=${address}`];
  const child = spawn('prometheus', args, { stdio: 'ignore' });
  const ended = once(child, 'exit');
  t.after(async () => {
    child.kill();
    await ended;
    rmSync(folder, { recursive: true });
  });
  return {
    async query(text) {
      const response = await fetch(`http://${address}/api/v1/query?query=${encodeURIComponent(text)}`).catch(() => null);
      return response?.ok ? (await response.json()).data.result : [];
    },
  };
}

test('counts requests, computations and times by model and version', async (t) => {
  const server = await startServer(t, { models: repositoryOf(t, { 'digits/3/model.onnx': DIGITS }), metrics: 0 });
  const { query } = await startPrometheus(t, new URL(server.urls.metrics).host);
  const infer = `${server.urls.http}/v2/models/digits/infer`;
  await Promise.all(Array.from({ length: 10 }, () => post(infer, { inputs: [PICTURE] })));
  await post(infer, { inputs: [{ ...PICTURE, datatype: 'FP64' }] });
  const labels = '{model="digits",version="3"}';
  await until(async () => (await query(`nv_inference_request_success${labels}`))[0]?.value[1] === '10', 'Prometheus has read the requests');
  assert.equal((await query(`sum(nv_inference_request_failure${labels})`))[0].value[1], '1');
  assert.equal((await query('up{job="serve"}'))[0].value[1], '1');
  const [[, computations]] = (await query(`nv_inference_exec_count${labels}`)).map(({ value }) => value);
  assert.ok(Number(computations) >= 1 && Number(computations) <= 10);
  for (const name of ['request', 'compute_infer']) {
    const [{ value }] = await query(`nv_inference_${name}_duration_us${labels}`);
    assert.ok(Number(value[1]) > 0, name);
  }
  const [{ value: length }] = await query(`webnn_serve_queue_length${labels}`);
  assert.equal(length[1], '0');
  assert.ok((await query('nodejs_eventloop_lag_p99_seconds')).length > 0);
});
