const inspectOptions = {
  colors: false, depth: 2, showHidden: false, showProxy: false, customInspect: true, getters: false,
  maxArrayLength: 100, maxStringLength: textMax, breakLength: 80, compact: 3, sorted: false,
  numericSeparator: false,
};
// show never throws, although an object's own description may.
const show = (value, options = inspectOptions) => {
  try {
    return inspect(value, options);
  } catch {}
  try {
    return inspect(value, { ...options, customInspect: false });
  } catch {}
  return plain(value, textMax) ?? '[a value that cannot be shown]';
};
const cut = (text, max = textMax) => {
  if (text.length * 3 <= max) return text;
  const bytes = toBytes(text, 'utf8');
  if (bytes.length <= max) return text;
  const note = `\n[cut: ${bytes.length} bytes in all]`;
  let end = max - note.length;
  while (end > 0 && (bytes[end] & 0xc0) === 0x80) end--;
  return bytesToText(bytes, 'utf8', 0, end) + note;
};

// plain returns value as JSON if it is pure JSON data, and no longer than max.
const plain = (value, max) => {
  let room = max;
  const parents = [];
  const write = (v) => {
    if (v === null || typeof v === 'boolean') return String(v);
    if (typeof v === 'string' && v.length < room) return quote(v);
    if (typeof v === 'number' && isFinite(v)) return String(v);
    if (typeof v !== 'object' || isProxy(v) || parents.length > 200 || parents.includes(v)) throw parents;
    const prototype = Object.getPrototypeOf(v);
    const list = Array.isArray(v);
    if (prototype !== (list ? mainArrayPrototype : mainObjectPrototype) && prototype !== null) throw parents;
    const keys = Object.keys(v);
    if (list && keys.length !== v.length) throw parents;
    parents.push(v);
    let out = '';
    for (let i = 0; i < keys.length; i++) {
      const d = Object.getOwnPropertyDescriptor(v, keys[i]);
      if (!d || d.get || d.set) throw parents;
      const item = (i ? ',' : '') + (list ? '' : quote(keys[i]) + ':') + write(d.value);
      room -= item.length;
      if (room < 0) throw parents;
      out += item;
    }
    parents.pop();
    return list ? `[${out}]` : `{${out}}`;
  };
  try {
    const json = write(value);
    return json.length <= max && toBytes(json, 'utf8').length <= max ? json : undefined;
  } catch {
    return undefined;
  }
};
