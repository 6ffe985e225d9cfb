// Works a queue: claims for its free places and settles what is done in one call, renews leases, parks without polling.
//
//   node worker.js --url URL --protocol DIR --queue NAME --handler FILE [--concurrency N] [--lease MS]
//
// The handler module exports `handle(job, engine)`: returning ends the job, throwing retries it.

import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { Engine, WrongUsage } from './engine.js';

const BEAT_MS = 1_000;
const GRACE_MS = 10_000;
const USAGE = 'node worker.js --url URL --protocol DIR --queue NAME --handler FILE [--concurrency N] [--lease MS]';

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

/** What the command line asks for: a worker that may run. Throws WrongUsage. */
async function prepare() {
  const text = { type: 'string' };
  const options = { url: text, protocol: text, queue: text, handler: text, concurrency: text, lease: text };
  const wrong = (error) => { throw new WrongUsage(error.message.split('\n')[0]); };
  const { values } = await Promise.resolve().then(() => parseArgs({ options })).catch(wrong);
  const missing = ['url', 'protocol', 'queue', 'handler'].filter((name) => !values[name]);
  if (missing.length) wrong(new Error(`missing --${missing.join(', --')}`));
  const [concurrency, leaseMs] = [Number(values.concurrency ?? 8), Number(values.lease ?? 30_000)];
  if (![concurrency, leaseMs].every((n) => Number.isInteger(n) && n > 0)) {
    wrong(new Error('--concurrency and --lease are whole numbers from 1'));
  }
  const inFile = (error) => wrong(new Error(`handler ${values.handler}: ${error.message}`));
  const { handle } = await import(pathToFileURL(resolve(values.handler))).catch(inFile);
  if (typeof handle !== 'function') wrong(new Error(`${values.handler} exports no function handle(job, engine)`));
  const engine = await Engine.connect(values.url, values.protocol, values.queue);
  return new Worker(engine, handle, { concurrency, leaseMs });
}

if (process.argv[1] === import.meta.filename) {
  if (process.argv.includes('--help')) {
    console.log(USAGE);
    process.exit(0);
  }
  const worker = await prepare().catch((error) => {
    const usage = error instanceof WrongUsage;
    console.error(`worker: ${error.message || error.code}${usage ? ' (see --help)' : ''}`);
    process.exit(usage ? 2 : 1);
  });
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => worker.stop());
  await worker.run();
  await worker.engine.close();
}
