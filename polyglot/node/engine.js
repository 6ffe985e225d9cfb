// Speaks the bus with what the exported files say, and nothing else: commands, keys, ids, wire version.

import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient, RESP_TYPES } from 'redis';
import { encode } from './msgpack.js';

const NODE_LEASE_MS = 30_000;
const NODE_REST_MS = 10_000;
const JOB_FIELDS = 7;
const CONNECT_MS = 10_000;

/** The caller's mistake; the message is one line with the remedy. */
export class WrongUsage extends Error {}

export class Engine {
  /** Connect to `url` (redis://, rediss://, unix://), pass the version fence, and lease a node number for ids.
   * Throws WrongUsage before anything is sent; a server that cannot be reached now is an error as well. */
  static async connect(url, directory, queue) {
    const read = (name) => {
      try {
        return JSON.parse(readFileSync(join(directory, name), 'utf8'));
      } catch (error) {
        throw new WrongUsage(`${directory} holds no exported protocol (${error.message}): run codemojex protocol export`);
      }
    };
    const engine = new Engine(directory, read('protocol.json'), read('commands.json'), read('keys.json'), read('ids.json'));
    const { names, reserved_queues: reserved } = engine.keys;
    if (!new RegExp(`^${names.queue}$`).test(queue) || reserved.includes(queue)) {
      throw new WrongUsage(`queue '${queue}' is not valid: use ${names.queue}, and none of ${reserved}`);
    }
    engine.prefix = engine.keys.prefix.replace('<queue>', queue);
    if (!/^(redis|rediss|unix):\/\/./.test(url) || !URL.canParse(url)) {
      throw new WrongUsage('the URL must be redis://host:port, rediss://host:port or unix://path');
    }
    const path = url.startsWith('unix://') ? { path: url.slice(7) } : {};
    const reconnectStrategy = (tries) => engine.connected && Math.min(50 * 2 ** tries, 2_000); // the first time must succeed
    const client = createClient({ ...(path.path ? {} : { url }), socket: { ...path, reconnectStrategy }, RESP: 3 });
    engine.clients = [client, client.duplicate()]; // the second one waits
    for (const each of engine.clients) each.on('error', () => {}); // calls in flight fail by themselves
    const late = new Promise((_, fail) => {
      setTimeout(() => fail(new Error(`no answer from the server within ${CONNECT_MS} ms`)), CONNECT_MS).unref();
    });
    await Promise.race([late, engine.open()]);
    return engine;
  }

  async open() {
    await Promise.all(this.clients.map((each) => each.connect())).catch((error) => {
      throw new Error(`no connection to the server: ${error.message || error.code}`);
    });
    this.connected = true;
    await this.fence();
    await this.leaseNode();
    this.renewal = setInterval(() => this.renewNode().catch(() => {}), NODE_LEASE_MS / 3).unref();
  }

  constructor(directory, protocol, commands, keys, ids) {
    Object.assign(this, { directory, protocol, commands, keys, ids, token: randomBytes(8).toString('hex'), cell: 0n, connected: false });
    const [version, nodes] = ['version', 'nodes'].map((name) => keys.deployment.find((k) => k.pattern.endsWith(`:${name}`)));
    Object.assign(this, { versionKey: version.pattern, nodesKey: nodes.pattern });
  }

  send(args, client = this.clients[0]) {
    return client.sendCommand(args.map((arg) => (Buffer.isBuffer(arg) ? arg : String(arg))), {
      typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer },
    });
  }

  /** Run an exported command; a server that does not know it is taught, and must agree on the digest. */
  async run(name, keys, args) {
    const { sha1, file } = this.commands[name];
    const call = () => this.send(['EVALSHA', sha1, keys.length, ...keys, ...args]);
    try {
      return await call();
    } catch (error) {
      if (!String(error.message).startsWith('NOSCRIPT')) throw error;
    }
    const known = String(await this.send(['SCRIPT', 'LOAD', readFileSync(join(this.directory, file), 'utf8')]));
    if (known !== sha1) throw new Error(`the server's digest of ${name} is ${known}, the exported one ${sha1}`);
    return call();
  }

  async fence() {
    const { wire } = this.protocol;
    await this.send(['SET', this.versionKey, wire, 'NX']);
    const found = String(await this.send(['GET', this.versionKey]));
    if (found !== wire) throw new Error(`this server speaks ${found} and this worker ${wire}: run the release that matches`);
  }

  async leaseNode() {
    const { first, count } = this.ids.leased_nodes;
    const start = first + Math.floor(Math.random() * count);
    const sent = performance.now();
    this.node = await this.run('node_lease', [this.nodesKey], [this.token, NODE_LEASE_MS, NODE_REST_MS, start, count, first]);
    if (this.node < 0) throw new Error('every node number is leased or reserved: stop workers that are not needed');
    this.nodeUntil = sent + NODE_LEASE_MS;
  }

  async renewNode(leaseMs = NODE_LEASE_MS) {
    const sent = performance.now();
    const held = await this.run('node_renew', [this.nodesKey], [this.node, this.token, leaseMs, NODE_REST_MS]);
    this.nodeUntil = held === 1 ? sent + leaseMs : 0;
    if (held !== 1 && leaseMs) await this.leaseNode(); // the server forgot this number, or gave it away
  }

  /** A fresh id: strictly increasing in this process, whatever its clock does. */
  mint(namespace) {
    if (performance.now() >= this.nodeUntil) throw new Error('the lease of the node number lapsed: no ids until it is renewed');
    const { node, sequence } = this.ids.bits;
    const now = BigInt(Date.now() - this.ids.epoch_ms) << BigInt(sequence);
    this.cell = this.cell + 1n > now ? this.cell + 1n : now;
    const [ms, seq] = [this.cell >> BigInt(sequence), this.cell & ((1n << BigInt(sequence)) - 1n)];
    return this.brand(namespace, (ms << BigInt(node + sequence)) | (BigInt(this.node) << BigInt(sequence)) | seq);
  }

  brand(namespace, snowflake) {
    let payload = '';
    for (let i = 0, rest = snowflake; i < this.ids.last_payload.length; i += 1, rest /= 62n) {
      payload = this.ids.alphabet[Number(rest % 62n)] + payload;
    }
    return namespace + payload;
  }

  /** Admit jobs ({id, payload, lane, delay, max_attempts, …}); [code, holder] each. */
  async admit(jobs) {
    const specs = jobs.map(({ payload, ...spec }) => spec);
    const reply = await this.run('admit_many', [this.prefix], [encode(specs), ...jobs.map((job) => job.payload)]);
    return jobs.map((_, i) => [String(reply[2 * i]), String(reply[2 * i + 1])]);
  }

  /** End attempts ([id, token, kind, …] each) and claim up to `n` jobs, in one step. */
  async settle(items, n = 0, leaseMs = 30_000, { maxAttempts = 3, backoff = 'exp:1000:60000:1', maxBytes = 1 << 20 } = {}) {
    const args = [encode(items), maxAttempts, backoff, n, leaseMs, maxBytes];
    const [, flat, [limitedMs, dueMs, paused, ...fields]] = await this.run('settle', [this.prefix], args);
    const verdicts = items.map((_, i) => [String(flat[3 * i]), flat[3 * i + 1] && String(flat[3 * i + 1])]);
    const jobs = [];
    for (let i = 0; i < fields.length; i += JOB_FIELDS) {
      const [id, payload, token, lane, failures, stalled] = fields.slice(i, i + JOB_FIELDS);
      const job = { id: String(id), payload, token: String(token), lane: String(lane) || null };
      jobs.push({ ...job, failures: Number(failures), stalled: Number(stalled) });
    }
    return { verdicts, jobs, limitedMs, dueMs, paused: paused === 1 };
  }

  /** Renew leases ([id, token] each): 'ok', 'stale', 'gone' or 'cancel:<reason>' each. */
  async extend(leases, leaseMs) {
    return (await this.run('extend', [this.prefix], [leaseMs, ...leases.flat()])).map(String);
  }

  promote = () => this.run('promote', [this.prefix], [100]);

  recover = () => this.run('recover', [this.prefix], [100, 3, '']);

  /** Wait until work may be there, `ms` at the longest. */
  wait(ms) {
    return this.send(['BLPOP', `${this.prefix}wake`, Math.max(0.01, ms / 1000)], this.clients[1]);
  }

  async close() {
    clearInterval(this.renewal);
    await this.renewNode(0).catch(() => {}); // it lapses by itself
    for (const client of this.clients) client.destroy();
  }
}
