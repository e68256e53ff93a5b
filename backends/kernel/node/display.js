const signatures = [
  ['image/png', '89504e47'], ['image/jpeg', 'ffd8ff'], ['image/gif', '47494638'], ['application/pdf', '25504446'],
];
const mediaType = (bytes) => {
  const head = bytesToText(bytes, 'hex', 0, 12);
  if (head.startsWith('52494646') && head.endsWith('57454250')) return 'image/webp';
  return signatures.find((s) => head.startsWith(s[1]))?.[0];
};
const isText = (type) => type.startsWith('text/') || type.endsWith('+xml') || type.endsWith('json');
const mimeType = /^[a-z]+\/[a-z0-9.+-]+$/;
// media returns a value's form in a bundle for a MIME type.
const media = (type, value) => {
  if (isUint8Array(value)) return bytesToText(toBytes(value), isText(type) ? 'utf8' : 'base64');
  if (typeof value === 'string') return value;
  return type.endsWith('json') ? plain(value, mediaMax) ?? jsonOf(value) : show(value);
};
const addMedia = (bundle, type, value) => {
  if (type === 'text/plain') {
    bundle[type] = cut(media(type, value));
    return;
  }
  const text = media(type, value);
  if (toBytes(text, 'utf8').length <= mediaMax) bundle[type] = text;
  else bundle['text/plain'] ??= `[${type} of ${text.length} bytes left out: more than ${mediaMax}]`;
};
const bundleOf = (value) => {
  const bundle = { 'text/plain': cut(show(value)) };
  const json = plain(value, textMax);
  if (json !== undefined) bundle['application/json'] = json;
  return bundle;
};
const bundleJSON = (bundle) => {
  let out = '';
  for (const type of Object.keys(bundle)) out += `${out && ','}${quote(type)}:${quote(bundle[type])}`;
  return `{${out}}`;
};

// isBundle reports whether all names of an object are MIME types, so that it is its own bundle.
const isBundle = (value) => {
  if (typeof value !== 'object' || value === null || isProxy(value)) return false;
  const keys = Object.keys(value);
  return keys.length > 0 && keys.every((k) => mimeType.test(k));
};
const displayBundle = (value) => {
  if (typeof value === 'string') return { 'text/plain': cut(value) };
  const type = isUint8Array(value) ? mediaType(value) : undefined;
  const bundle = {};
  if (type) addMedia(bundle, type, value);
  else if (isBundle(value)) for (const k of Object.keys(value)) addMedia(bundle, k, value[k]);
  else return bundleOf(value);
  return bundle;
};
const emit = (bundle) => {
  if (cell) send(`{"op":"display","id":${cell.id},"data":${bundleJSON(bundle)}}`);
  else writeAll(1, toBytes((bundle['text/plain'] ?? '[shown between cells]') + '\n', 'utf8'));
};
const display = (...values) => {
  for (const v of values) emit(displayBundle(v));
};
for (const [name, type] of [['html', 'text/html'], ['markdown', 'text/markdown'], ['json', 'application/json'],
  ['svg', 'image/svg+xml'], ['png', 'image/png'], ['jpeg', 'image/jpeg']]) {
  display[name] = (value) => {
    const bundle = {};
    addMedia(bundle, type, value);
    emit(bundle);
  };
}
