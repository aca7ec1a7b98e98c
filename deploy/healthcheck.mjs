// Ends with 0 if the server in this container is ready: for Docker, which has no probes of its own.

const [url = 'http://127.0.0.1:8080'] = process.argv.slice(2);
const { ok, status } = await fetch(`${url}/v2/health/ready`, { signal: AbortSignal.timeout(2000) });
if (!ok) {
  console.error(`not ready: ${status}`);
  process.exitCode = 1;
}
