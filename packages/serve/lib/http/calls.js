// What a call over HTTP says beside its body.

/**
 * A signal for a caller that has gone, and its deadline.
 * @param {import('fastify').FastifyRequest} request
 * @param {import('fastify').FastifyReply} reply
 * @param {number} [timeoutMs] that the body names
 * @returns {{ signal: AbortSignal, deadline: number | undefined }}
 */
export function callOptions(request, reply, timeoutMs) {
  const controller = new AbortController();
  // Whoever left while the request was read closes nothing any more.
  if (reply.raw.destroyed) controller.abort();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) controller.abort();
  });
  return { signal: controller.signal, deadline: timeoutMs === undefined ? undefined : performance.now() + timeoutMs };
}

/**
 * The bytes of a request; a parser is not asked where there are none.
 * @param {import('fastify').FastifyRequest} request
 * @returns {Buffer}
 */
export const bodyOf = ({ body }) => /** @type {Buffer | undefined} */ (body) ?? Buffer.alloc(0);
