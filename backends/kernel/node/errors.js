// Frames of Node's internals and of the driver are left out of tracebacks.
const foreign = /^\s+at .*(\bnode:[a-z_]|kernel-driver\.js)/;
const clean = (text) => {
  const lines = text.split('\n').filter((l) => !foreign.test(l));
  return lines.join('\n').replace(/\b(cell[^\n:()]*):(\d+):(\d+)/g, (all, name, line, column) =>
    `${name}:${line}:${column - shiftAt(name, +line, +column)}`);
};
const field = (e, name) => {
  try {
    const v = e[name];
    if (typeof v === 'string') return v;
  } catch {}
  return undefined;
};
const describe = (e) => {
  let native = false;
  try {
    native = isNativeError(e) || e instanceof MainError;
  } catch {}
  if (!native) {
    const text = cut(show(e));
    return { type: e === null ? 'null' : typeof e, message: text, traceback: 'Uncaught ' + text };
  }
  let type = field(e, 'name') || 'Error';
  if (type === 'Error') type = typeName(e); // of a class that sets no name
  const message = field(e, 'message') ?? '';
  let text = show(e);
  const stack = field(e, 'stack');
  if (text === `[${stack}]`) text = stack; // inspect's mark for a stack without frames
  if (stack === undefined) text = message ? `${type}: ${message}` : type;
  return { type, message: cut(message), traceback: cut(clean(text)) };
};
const errorJSON = (e) =>
  `{"type":${quote(e.type)},"message":${quote(e.message)},"traceback":${quote(e.traceback)}}`;
