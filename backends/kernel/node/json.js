// jsonOf returns any data as JSON: a BigInt as a string of digits, a Map as an object if its keys are strings and
// as a list of pairs otherwise, a Set as a list, a Date in ISO 8601, bytes in base64, other typed arrays as lists,
// numbers that JSON lacks as null. Anything else is an error that names its place.
const jsonOf = (root) => {
  const parents = [];
  let size = 0;
  const fail = (what, at) => {
    throw new Error(`${at} is ${what}, which JSON cannot hold`);
  };
  const list = (count, item) => {
    let out = '';
    for (let i = 0; i < count; i++) out += (i ? ',' : '') + item(i);
    return `[${out}]`;
  };
  const pairs = (keys, valueOf, at) => {
    let out = '';
    for (let i = 0; i < keys.length; i++) {
      const v = valueOf(keys[i]);
      if (v === undefined) continue;
      out += `${out && ','}${quote(keys[i])}:${write(v, `${at}.${keys[i]}`)}`;
    }
    return `{${out}}`;
  };
  const object = (v, at) => {
    if (isDate(v)) return isFinite(+v) ? quote(toISO(v)) : 'null';
    if (isUint8Array(v)) return quote(bytesToText(toBytes(v), 'base64'));
    if (isTypedArray(v)) return list(v.length, (i) => write(v[i], at));
    if (isNativeError(v)) return pairs(['name', 'message', 'stack'], (k) => String(v[k]), at);
    if (isPromise(v)) return fail('a promise', at);
    if (isMap(v)) {
      const keys = [];
      const values = new Map();
      mapEach(v, (value, key) => { keys.push(key); values.set(key, value); });
      if (keys.every((k) => typeof k === 'string')) return pairs(keys, (k) => values.get(k), at);
      return list(keys.length, (i) => `[${write(keys[i], at)},${write(values.get(keys[i]) ?? null, at)}]`);
    }
    if (isSet(v)) {
      const items = [];
      setEach(v, (item) => items.push(item));
      return list(items.length, (i) => write(items[i] ?? null, `${at}[${i}]`));
    }
    if (Array.isArray(v)) return list(v.length, (i) => write(v[i] ?? null, `${at}[${i}]`));
    if (typeof v.toJSON === 'function') return write(v.toJSON() ?? null, at);
    return pairs(Object.keys(v), (k) => v[k], at);
  };
  const write = (v, at) => {
    switch (typeof v) {
      case 'undefined': return 'null';
      case 'boolean': return String(v);
      case 'number': return isFinite(v) ? String(v) : 'null';
      case 'bigint': return quote(String(v));
      case 'string':
        size += v.length;
        if (size > replyMax) fail('too long', 'the value');
        return quote(v);
      case 'function': return fail('a function', at);
      case 'symbol': return fail('a symbol', at);
    }
    if (v === null) return 'null';
    if (parents.includes(v)) fail('a cycle', at);
    if (parents.length > 1000) fail('nested too deeply', at);
    parents.push(v);
    const json = object(v, at);
    parents.pop();
    return json;
  };
  const json = write(root, 'it');
  if (json.length > replyMax) fail('too long', 'the value');
  return json;
};
