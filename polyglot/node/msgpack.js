// Encodes the few kinds of values that commands take as one message: null, booleans, numbers, strings, arrays, objects.

const head = (small, limit, [one, two, four], n) => {
  if (n < limit) return Buffer.from([small | n]);
  if (one && n < 0x100) return Buffer.from([one, n]);
  const out = Buffer.alloc(n < 0x10000 ? 3 : 5);
  out[0] = n < 0x10000 ? two : four;
  if (n < 0x10000) out.writeUInt16BE(n, 1);
  else out.writeUInt32BE(n, 1);
  return out;
};

const number = (n) => {
  if (Number.isInteger(n) && n >= 0 && n < 128) return Buffer.from([n]);
  const out = Buffer.alloc(9);
  out[0] = Number.isSafeInteger(n) ? 0xd3 : 0xcb;
  if (Number.isSafeInteger(n)) out.writeBigInt64BE(BigInt(n), 1);
  else out.writeDoubleBE(n, 1);
  return out;
};

export const encode = (value) => {
  if (value === null || value === undefined) return Buffer.from([0xc0]);
  if (typeof value === 'boolean') return Buffer.from([value ? 0xc3 : 0xc2]);
  if (typeof value === 'number') return number(value);
  if (typeof value === 'string' || Buffer.isBuffer(value)) {
    const bytes = Buffer.from(value);
    return Buffer.concat([head(0xa0, 32, [0xd9, 0xda, 0xdb], bytes.length), bytes]);
  }
  if (Array.isArray(value)) {
    return Buffer.concat([head(0x90, 16, [null, 0xdc, 0xdd], value.length), ...value.map(encode)]);
  }
  const pairs = Object.entries(value).filter(([, part]) => part !== undefined);
  return Buffer.concat([head(0x80, 16, [null, 0xde, 0xdf], pairs.length), ...pairs.flat().map(encode)]);
};
