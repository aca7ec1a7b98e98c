/** The name of the queue. */
export const QUEUE = 'digits';

/** Where Redis is. */
export const connection = { url: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379' };
