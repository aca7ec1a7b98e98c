// Health over HTTP: beside the protocols, and at the port of the metrics. A port of its own has a queue of its own for connections that wait
// to be accepted: Node accepts one in each turn of the event loop, so hundreds of callers who connect at once delay the next probe.

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {() => boolean} isReady
 */
export function addHealthRoutes(app, isReady) {
  app.get('/v2/health/live', async () => ({ live: true }));
  app.get('/v2/health/ready', async (_, reply) => {
    const ready = isReady();
    reply.code(ready ? 200 : 503);
    return { ready, live: true };
  });
}
