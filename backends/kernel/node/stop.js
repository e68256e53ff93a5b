const watched = new main.Int32Array(new main.SharedArrayBuffer(8)); // the running cell's id; whether the thread is up
const { Atomics } = main;
const watcherCode = `
  const { workerData: watched } = require('worker_threads');
  const { Session } = require('inspector');
  process.emitWarning = () => {};
  const { Signal } = require('internal/test/binding').internalBinding('signal_wrap');
  const session = new Session();
  session.connectToMainThread();
  const stop = (id, tries) => {
    if (Atomics.load(watched, 0) !== id || tries === 0) return;
    session.post('Runtime.terminateExecution');
    setTimeout(stop, 100, id, tries - 1);
  };
  const signal = new Signal();
  signal.onsignal = () => {
    const id = Atomics.load(watched, 0);
    if (id !== 0) setTimeout(stop, 50, id, 20);
  };
  signal.start(2);
  Atomics.store(watched, 1, 1);`;
let watcher = null;
let resting;
const watch = (id) => {
  Atomics.store(watched, 0, id);
  clearTimeout(resting);
  if (watcher !== null || !internalBinding) return;
  try {
    const w = new Worker(watcherCode, {
      eval: true, name: 'interrupt', workerData: watched, env: {}, execArgv: ['--expose-internals'], stdout: true, stderr: true,
      resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 },
    });
    watcher = w;
    const gone = () => { if (watcher === w) watcher = null; };
    w.on('error', gone);
    w.on('exit', gone);
    w.unref();
  } catch {
    watcher = null; // without a thread, only waiting code can be interrupted
  }
};
const watching = (id, f) => {
  watch(id);
  try {
    return f();
  } finally {
    Atomics.store(watched, 0, 0);
    rest();
  }
};
const rest = () => {
  clearTimeout(resting);
  resting = setTimeout(() => {
    watcher?.terminate();
    watcher = null;
  }, watchIdle);
  resting.unref();
};

// Terminated code leaves Node's record of asynchronous contexts in the middle of a callback. Node would abort for
// that: it is started without that check, and each of the program's hooks, such as AsyncLocalStorage's, would
// enable the check again.
const unchecked = () => {
  const { async_hook_fields: fields, constants } = internalBinding('async_wrap');
  const hooks = require('async_hooks').createHook({}).constructor.prototype;
  for (const name of ['enable', 'disable']) {
    const callOriginal = uncurry(hooks[name]);
    hooks[name] = function () {
      callOriginal(this);
      fields[constants.kCheck] = 0;
      return this;
    };
  }
};
try {
  unchecked();
} catch {} // a Node with other internals: then an interrupt may cost the session
const mend = () => clearAsyncIdStack?.();
const interrupted = () => {
  if (cell === null && asked === null) return;
  mend();
  const message = 'the code was interrupted';
  const error = { type: 'Interrupted', message, traceback: `Interrupted: ${message}` };
  if (cell !== null) {
    finish({ described: true, error });
    return;
  }
  const id = asked;
  asked = null;
  Atomics.store(watched, 0, 0);
  send(`{"op":"done","id":${id},"error":${errorJSON(error)}}`);
};
if (internalBinding) {
  const { Signal } = internalBinding('signal_wrap');
  const signal = new Signal();
  signal.onsignal = interrupted;
  signal.start(2);
} else {
  process.on('SIGINT', interrupted);
}

// process.exit ends the calling code at once, like the real one, also inside try and finally: V8 terminates it.
let session;
const exit = (code) => {
  const status = (Number(code ?? process.exitCode ?? 0) || 0) & 255;
  const which = cell;
  if (which === null) {
    writeAll(2, toBytes(`process.exit(${status}) was called between cells: the session goes on\n`, 'utf8'));
  }
  setTimeout(() => {
    mend();
    if (cell === which) finish({ exit: status });
  }, 0);
  if (!session) {
    session = new Session();
    session.connect();
  }
  session.post('Runtime.terminateExecution');
  for (;;);
};
process.exit = exit;
