// Functions that a caller outside the sandbox performs: require('tools') and import provide them. A call is sent
// over the private descriptor, and its answer comes back on it while the cell runs.
const callsMax = 128; // at a time
const argumentsMax = 256 << 10; // bytes
const waiting = new Map(); // number of a call -> functions that settle its promise
let lastCall = 0;
let tools = null;
let offered = null; // as JSON
const reject = main.Promise.reject.bind(main.Promise);

class ToolError extends MainError {
  constructor(message) {
    super(message);
    Object.defineProperty(this, 'name', { value: 'ToolError', writable: true, configurable: true, enumerable: false });
  }
}

const callTool = (name, args) => {
  if (args.length > 1 || (args.length === 1 && (typeof args[0] !== 'object' || args[0] === null || Array.isArray(args[0])))) {
    throw new main.TypeError(`${name} takes one object of named arguments, such as ${name}({ key: 'value' })`);
  }
  const json = jsonOf(args[0] ?? {});
  const size = toBytes(json, 'utf8').length;
  if (size > argumentsMax) throw new ToolError(`the arguments take ${size} bytes as JSON, more than ${argumentsMax}`);
  if (cell === null) throw new ToolError('tools can be called while a cell runs');
  if (waiting.size >= callsMax) throw new ToolError(`${callsMax} calls at a time are the most`);
  lastCall++;
  const entry = {};
  entry.promise = new main.Promise((yes, no) => Object.assign(entry, { yes, no }));
  waiting.set(lastCall, entry);
  send(`{"op":"call","id":${cell.id},"call":${lastCall},"name":${quote(name)},"args":${json}}`);
  return entry.promise;
};

const offer = (list) => {
  if (offered === JSON.stringify(list)) return;
  offered = JSON.stringify(list);
  tools = { ToolError };
  for (const { name, about } of list) {
    tools[name] = { [name](...args) {
      try {
        return callTool(name, args);
      } catch (e) {
        return reject(e instanceof MainError ? e : new main.TypeError(field(e, 'message') ?? 'the arguments cannot be told'));
      }
    } }[name];
    tools[name].description = about;
  }
  tools.default = tools;
};

const endCall = (m) => {
  const entry = waiting.get(m.call);
  if (entry === undefined) return;
  waiting.delete(m.call);
  if (m.error === undefined) entry.yes(parseInMain(JSON.stringify(m.value)));
  else entry.no(new ToolError(m.error));
};

// endCalls ends the calls in progress: no call is performed after the cell's end, and most have no waiter.
const endCalls = () => {
  for (const [number, { promise }] of waiting) {
    then(promise, undefined, () => {});
    endCall({ call: number, error: 'the cell has ended' });
  }
};

const loadModule = Module._load;
Module._load = function (name, ...more) {
  return name === 'tools' && tools !== null ? tools : loadModule.call(this, name, ...more);
};
