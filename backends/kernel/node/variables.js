const variableNames = () => {
  const found = Object.keys(names);
  for (const name of Object.getOwnPropertyNames(main)) {
    if (names[name] || (name === '_' && underscoreIsOurs)) continue;
    if (!(name in provided) || (name === '_' && !underscoreIsOurs)) found.push(name);
  }
  return found.sort();
};
const isName = /^[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*$/u;
const read = (name) => {
  if (!isName.test(name)) throw new Error(`${quote(name)} is not a variable name`);
  if (!names[name] && !(name in main)) throw new Error(`there is no variable ${name}`);
  return script(name, 'variables').runInThisContext();
};
// The list runs no code of the objects, so it needs no time limit.
// A string is cut only after the whole text: the search for secrets recognises a cut only at its end.
const shortOptions = { ...inspectOptions, customInspect: false, depth: 0, maxArrayLength: 10, maxStringLength: 256, breakLength: Infinity };
const typeName = (v) => {
  if (v === null || typeof v !== 'object') return v === null ? 'null' : typeof v;
  if (isProxy(v)) return 'Proxy';
  try {
    const d = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(v) ?? {}, 'constructor');
    if (typeof d?.value === 'function' && typeof d.value.name === 'string') return d.value.name || 'Object';
  } catch {}
  return 'Object';
};
const sizeOf = (v) => {
  if (typeof v === 'string') return [v.length, 'characters'];
  if (typeof v !== 'object' || v === null || isProxy(v)) return undefined;
  if (isTypedArray(v)) return [v.byteLength, 'bytes'];
  if (Array.isArray(v)) return [v.length, 'elements'];
  if (isMap(v)) return [mapSize(v), 'elements'];
  if (isSet(v)) return [setSize(v), 'elements'];
  return Object.getPrototypeOf(v) === mainObjectPrototype ? [Object.keys(v).length, 'keys'] : undefined;
};
const variables = () => variableNames().map((name) => {
  let value;
  let text;
  try {
    value = read(name);
    text = show(value, shortOptions);
  } catch (e) {
    text = field(e, 'message') ?? '[it cannot be read]';
  }
  text = text.slice(0, 200);
  const size = sizeOf(value);
  return `{"name":${quote(name)},"type":${quote(text.startsWith('[class') ? 'class' : typeName(value))},"text":${quote(text)}` +
    (size ? `,"size":${size[0]},"unit":${quote(size[1])}}` : '}');
});

const set = (name, json) => {
  if (!isName.test(name)) throw new Error(`${quote(name)} is not a variable name`);
  declare([name]);
  script(`(v)=>{${name}=v}`, 'variables').runInThisContext()(parseInMain(json));
};

const answer = (id, f) => {
  asked = id;
  let reply;
  try {
    reply = f();
  } catch (e) {
    reply = `"error":${errorJSON({ ...describe(e), type: field(e, 'name') ?? 'Error', message: field(e, 'message') ?? show(e) })}`;
  }
  asked = null;
  send(`{"op":"done","id":${id},${reply}}`);
};
const perform = (text) => {
  const m = JSON.parse(text);
  switch (m.op) {
    case 'run': run(m); break;
    case 'set': answer(m.id, () => { set(m.key, JSON.stringify(m.value)); return '"json":null'; }); break;
    case 'get': answer(m.id, () => `"json":${watching(m.id, () => jsonOf(read(m.key)))}`); break;
    case 'answer': endCall(m); break;
    case 'vars': answer(m.id, () => `"vars":[${variables()}]`); break;
  }
};
