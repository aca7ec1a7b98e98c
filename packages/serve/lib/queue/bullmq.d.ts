// Types of BullMQ, which only those install who use worker(). Without it they are `any`: a project that only serves compiles.

// @ts-ignore: it need not be installed
export type { Job, Worker } from 'bullmq';
