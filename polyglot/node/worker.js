// Works a queue: claims for its free places and settles what is done in one call, renews leases, parks without polling.
//
//   node worker.js --url URL --protocol DIR --queue NAME --handler FILE [--concurrency N] [--lease MS]
//
// The handler module exports `handle(job, engine)`: returning ends the job, throwing retries it.

import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { Engine } from './engine.js';

const BEAT_MS = 1_000;
const GRACE_MS = 10_000;

export class Worker {
  constructor(engine, handle, { concurrency = 8, leaseMs = 30_000, ...policy } = {}) {
    Object.assign(this, { engine, handle, concurrency, leaseMs, policy, running: new Map(), done: [], stopping: false });
  }

  stop() {
    this.stopping = true;
    this.changed?.();
  }

  /** Work until `stop`: then let handlers finish within the grace and give the rest back, with nothing charged. */
  async run() {
    const timers = [setInterval(() => this.renew(), this.leaseMs / 3), setInterval(() => this.pump(), BEAT_MS)];
    while (!this.stopping) await this.turn().catch((error) => this.fault(error));
    const end = performance.now() + GRACE_MS;
    while (this.running.size && performance.now() < end) await this.change(end - performance.now());
    for (const job of this.running.values()) this.done.push([job.id, job.token, 'give_back']);
    this.running.clear(); // a handler that ends from here on is not heard
    await this.flush(0);
    timers.forEach(clearInterval);
  }

  async turn() {
    const free = this.concurrency - this.running.size;
    if (!free && !this.done.length) return this.change(BEAT_MS);
    const { jobs, limitedMs, dueMs } = await this.flush(free);
    for (const job of jobs) this.start(job);
    if (jobs.length >= free || this.done.length) return undefined;
    if (limitedMs) return this.change(limitedMs);
    const idleMs = dueMs > 0 ? Math.min(dueMs, BEAT_MS) : BEAT_MS;
    this.waking ??= this.engine.wait(idleMs).catch(() => {}).finally(() => { this.waking = undefined; });
    return Promise.race([this.waking, this.change(idleMs)]);
  }

  async flush(free) {
    const batch = this.done.splice(0, 200);
    try {
      return await this.engine.settle(batch, free, this.leaseMs, this.policy);
    } catch (error) {
      this.done.unshift(...batch); // the fence makes a second try harmless
      throw error;
    }
  }

  async start(job) {
    const key = `${job.id}:${job.token}`;
    this.running.set(key, job);
    let item = [job.id, job.token, 'complete'];
    try {
      await this.handle(job, this.engine);
    } catch (error) {
      item = [job.id, job.token, 'retry', String(error?.message ?? error).slice(0, 500), null, Math.random()];
    }
    if (this.running.delete(key)) this.done.push(item); // a lease that was lost is not settled
    this.changed?.();
  }

  async renew() {
    const held = [...this.running.entries()];
    if (!held.length) return;
    const verdicts = await this.engine.extend(held.map(([, job]) => [job.id, job.token]), this.leaseMs).catch(() => []);
    verdicts.forEach((verdict, i) => ['stale', 'gone'].includes(verdict) && this.running.delete(held[i][0]));
  }

  pump() {
    return Promise.all([this.engine.promote(), this.engine.recover()]).catch((error) => this.fault(error));
  }

  change(ms) {
    return new Promise((wake) => {
      const timer = setTimeout(wake, ms);
      this.changed = () => { clearTimeout(timer); wake(); };
    });
  }

  fault(error) {
    console.error(`worker: ${error.message}`);
    return this.change(500);
  }
}

if (process.argv[1] === import.meta.filename) {
  const text = { type: 'string' };
  const options = { url: text, protocol: text, queue: text, handler: text, concurrency: text, lease: text };
  const { values } = parseArgs({ options });
  const { handle } = await import(pathToFileURL(resolve(values.handler)));
  const engine = await Engine.connect(values.url, values.protocol, values.queue);
  const policy = { concurrency: Number(values.concurrency ?? 8), leaseMs: Number(values.lease ?? 30_000) };
  const worker = new Worker(engine, handle, policy);
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => worker.stop());
  await worker.run();
  await engine.close();
}
