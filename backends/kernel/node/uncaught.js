// If the program has a handler of its own, that one decides.
const uncaught = (error) => {
  if (process.listenerCount('uncaughtException') === 1) failed(error);
};
const unhandled = (reason) => {
  if (process.listenerCount('unhandledRejection') > 1) return;
  if (process.listenerCount('uncaughtException') > 1) throw reason;
  failed(reason);
};
const guard = () => {
  try {
    if (!process.listeners('uncaughtException').includes(uncaught)) process.on('uncaughtException', uncaught);
    if (!process.listeners('unhandledRejection').includes(unhandled)) process.on('unhandledRejection', unhandled);
  } catch {}
};
guard();
const { removeListener, removeAllListeners } = process;
for (const [name, remove] of [['removeListener', removeListener], ['off', removeListener], ['removeAllListeners', removeAllListeners]]) {
  process[name] = { [name](...args) {
    remove.apply(process, args);
    guard();
    return process;
  } }[name];
}
