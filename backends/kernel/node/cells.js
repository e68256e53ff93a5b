const declare = (list) => {
  const fresh = [...new Set(list)].filter((n) => !names[n]);
  if (fresh.length === 0) return;
  // Until its assignment, a name that hides a global has the global's value.
  script(`let ${fresh.map((n) => (n in main ? `${n}=this.${n}` : n))}`, 'declarations').runInThisContext();
  for (const n of fresh) names[n] = true;
};

// compile returns a cell's function. If acorn and V8 disagree about whether it is valid, V8 is right, except about
// features that only a module or the rewriting allows.
const compile = (code, name) => {
  let made;
  try {
    made = rewrite(code, name);
  } catch (e) {
    let theirs;
    try {
      return script(`(async()=>{\n${code}\n})`, name, -1).runInThisContext();
    } catch (found) {
      theirs = found;
    }
    if (!e.loc || !/outside a module|'(export|import)'/.test(field(theirs, 'message') ?? '')) throw theirs;
    const line = code.split(/\r\n|[\n\r\u2028\u2029]/)[e.loc.line - 1] ?? '';
    const message = e.message.replace(/ \(\d+:\d+\)$/, '');
    const error = new main.SyntaxError(message);
    error.stack = `${name}:${e.loc.line}\n${line}\n${' '.repeat(e.loc.column)}^\n\nSyntaxError: ${message}`;
    throw error;
  }
  const body = script(made.text, name, -1);
  declare(made.declared);
  for (const f of made.functions) {
    script((made.strict ? '"use strict";' : '') + f.text, name, f.line,
      f.column - (made.strict ? 13 : 0)).runInThisContext();
  }
  return body.runInThisContext();
};

let cell = null; // the running cell: its id, its mark, and the error of a callback that failed it
let asked = null; // id of a request other than a cell
let lastValue;
let underscoreIsOurs = true;

const finish = (outcome) => {
  const ended = cell;
  if (ended === null) return;
  let value = 'null';
  let error = 'null';
  let exit = 'null';
  try {
    if ('error' in outcome) {
      error = errorJSON(outcome.described ? outcome.error : describe(outcome.error));
    } else if ('value' in outcome && outcome.value !== undefined) {
      lastValue = outcome.value;
      value = bundleJSON(bundleOf(outcome.value));
    }
    if ('exit' in outcome) exit = String(outcome.exit);
    else if (process.exitCode) exit = String(process.exitCode & 255);
  } catch (e) {
    error = errorJSON({ type: 'Error', message: 'the outcome could not be described', traceback: show(e) });
  }
  // Only now: describing runs code of the value's own, which may have to be interrupted, too.
  cell = null;
  endCalls();
  try {
    process.exitCode = undefined;
  } catch {}
  Atomics.store(watched, 0, 0);
  rest();
  const mark = toBytes(`\0${ended.mark}\0`, 'latin1');
  writeAll(markFds[0], mark);
  writeAll(markFds[1], mark);
  send(`{"op":"done","id":${ended.id},"value":${value},"error":${error},"exit":${exit}}`);
};

// settle delays the result of the cell's own code until unhandled rejections have been reported, which Node does
// after all promise jobs. After an error it waits for one more round of the event loop, in which a signal is
// delivered: the signal may be the error's cause, as for execSync, whose child got it, too.
const settle = (which, outcome) => {
  const end = () => {
    if (cell === which) finish(which.failure ?? outcome);
  };
  setImmediate(() => ('error' in outcome ? setImmediate(end) : end()));
};

const failed = (error) => {
  if (cell !== null) {
    cell.failure ??= { error };
    settle(cell, cell.failure);
    return;
  }
  writeAll(2, toBytes(describe(error).traceback + '\n', 'utf8'));
};

const run = (message) => {
  cell = { id: message.id, mark: message.mark };
  const mine = cell;
  if (message.tools) offer(message.tools);
  for (const key of Object.keys(message.env ?? {})) process.env[key] = message.env[key];
  guard();
  watch(mine.id);
  let f;
  try {
    f = compile(message.code, message.name || 'cell');
  } catch (error) {
    finish({ error });
    return;
  }
  const observe = (code) => {
    then(plainPromise(code), (value) => settle(mine, { value }), (error) => settle(mine, { error }));
  };
  const start = plainPromise(resolve());
  // Adopting the code's promise calls its then(). If that was replaced, a visible frame of ours is acceptable.
  if (promisePrototype.then === promiseThen) observe(then(start, f));
  else then(start, () => observe(f()));
};
// then() reads a promise's constructor, which a cell may have replaced.
const plainPromise = (p) => Object.defineProperty(p, 'constructor', { value: undefined, configurable: true });
